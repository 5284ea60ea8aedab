"""Modules of torch that tests train."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 12
LENGTH = 6
CLASSES = 3


class Cnn(nn.Module):
    """Convolutions with batch norm and max-pooling."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.first(x)), inplace=True), 2, stride=1)
        h = F.relu(self.second(h))
        return self.last(F.adaptive_avg_pool2d(h, 1).flatten(1))


class Grouped(nn.Module):
    """Group and layer norm, an average pool, GELU; a transposed convolution that is not trained."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)
        self.up.weight.requires_grad_(False)
        self.layer = nn.LayerNorm(48)
        self.last = nn.Linear(48, CLASSES)

    def forward(self, x):
        h = F.gelu(self.norm(self.first(x)))
        h = F.avg_pool2d(F.silu(self.up(h)), 2)
        return self.last(self.layer(h.flatten(1)))


class Block(nn.Module):
    """Two convolutions beside x, which is subsampled, with zero channels behind it."""

    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.stride = fan_out // fan_in
        self.zeros = fan_out - fan_in
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, self.stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        return F.relu(h + F.pad(shortcut, (0, 0, 0, 0, 0, self.zeros)))


class ResNet8(nn.Module):
    """He et al.'s network for CIFAR with three blocks."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32))
        self.layer3 = nn.Sequential(Block(32, 64))
        self.linear = nn.Linear(64, CLASSES)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(h))).mean((2, 3)))


class Lstm(nn.Module):
    """For tokens: two layers, and a plain recurrent one behind them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 5)
        self.layers = nn.LSTM(5, 6, 2, batch_first=True)
        self.plain = nn.RNN(6, 4, bias=False, batch_first=True)
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x):
        h, _ = self.layers(self.embedding(x))
        h, _ = self.plain(h)
        return self.last(h[:, -1])


class Gru(nn.Module):
    """For tokens: both directions, positions first; the state at the end is used."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 5, padding_idx=0)
        self.layers = nn.GRU(5, 4, bidirectional=True)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x):
        _, h = self.layers(self.embedding(x.T))
        return self.last(torch.cat([h[0], h[1]], 1))


class Attention(nn.Module):
    """A causal block with tied weights and positions in a buffer; an output for every token."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 8)
        self.register_buffer("positions", torch.linspace(-1, 1, LENGTH * 8).reshape(LENGTH, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, TOKENS, bias=False)
        self.last.weight = self.embedding.weight

    def forward(self, x):
        h = self.embedding(x) + self.positions
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
        h = h + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return self.last(self.norm(h))


class Encoder(nn.Module):
    """torch's own block of a transformer, without dropout."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.last(self.block(self.embedding(x)).mean(1))
