"""Modules of torch that tests train."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 12
LENGTH = 6
CLASSES = 3


class Mlp(nn.Module):
    """For images [3, 6, 6]."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(108, 8)
        self.outer = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(torch.flatten(x, 1))))


class Cnn(nn.Module):
    """Convolutions with batch norm and max-pooling."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.first(x))), 2, stride=1)
        h = F.relu(self.second(h))
        return self.last(F.adaptive_avg_pool2d(h, 1).flatten(1))


class Grouped(nn.Module):
    """Group and layer norm, an average pool, GELU, and a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)
        self.layer = nn.LayerNorm(48)
        self.last = nn.Linear(48, CLASSES)

    def forward(self, x):
        h = F.gelu(self.norm(self.first(x)))
        h = F.avg_pool2d(F.silu(self.up(h)), 2)
        return self.last(self.layer(h.flatten(1)))


class Block(nn.Module):
    """Two convolutions beside a shortcut, as in resnet18."""

    def __init__(self, fan_in: int, fan_out: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)
        self.downsample = None
        if stride > 1:
            conv = nn.Conv2d(fan_in, fan_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(fan_out))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        h += shortcut
        return F.relu(h)


class Resnet(nn.Module):
    """As resnet18, with a block in each of two stages."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = Block(4, 4, 1)
        self.layer2 = Block(4, 8, 2)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        h = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        h = self.layer2(self.layer1(h))
        return self.fc(h.mean((2, 3)))


class Lstm(nn.Module):
    """For tokens: two layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 5)
        self.layers = nn.LSTM(5, 6, 2, batch_first=True)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x):
        h, _ = self.layers(self.embedding(x))
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


class Frozen(Cnn):
    """A network whose first kernel is not trained."""

    def __init__(self):
        super().__init__()
        self.first.weight.requires_grad_(False)
