"""The networks of fedsim in PyTorch, as written by hand, from the same start.

Parameters are named as in fedsim, `layer/W`; a model is its section of the scenario, resolved.
Images are `[B, H, W, C]` in memory, which torch calls `channels_last`.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

Leaves = dict[str, np.ndarray]


def network(model: dict, leaves: Leaves) -> nn.Module:
    """A network that starts from these parameters.

    Args:
      model: its kind and the parameters of the kind; `per_token` says whether tokens have labels.
      leaves: name -> array.
    """
    net = NETWORKS[model["kind"]](model, leaves)
    return net.to(memory_format=torch.channels_last)


def logistic(model: dict, leaves: Leaves) -> nn.Module:
    del model
    return nn.Sequential(nn.Flatten(), _given(nn.Linear, leaves["W"].T, leaves["b"]))


def mlp(model: dict, leaves: Leaves) -> nn.Module:
    del model
    *hidden, last = _numbered(leaves, "layer")
    modules: list[nn.Module] = [nn.Flatten()]
    for name in hidden:
        modules += [linear(leaves, name), nn.ReLU()]
    return nn.Sequential(*modules, linear(leaves, last))


class ConvNet(nn.Module):
    """Convolutions, each with max-pooling and ReLU, then hidden layers: `cnn` and `lenet`."""

    def __init__(self, model: dict, leaves: Leaves):
        super().__init__()
        names = _numbered(leaves, "conv")
        paddings = [model["padding"]] * len(names) if model["kind"] == "cnn" else ["same", "valid"]
        self.convolutions = nn.ModuleList()
        for name, padding in zip(names, paddings, strict=True):
            self.convolutions.append(convolution(leaves, name, padding=padding))
        self.hidden = nn.ModuleList(linear(leaves, name) for name in _numbered(leaves, "hidden"))
        self.last = linear(leaves, "last")

    def forward(self, x):
        h = channels_first(x)
        for layer in self.convolutions:
            h = F.relu(F.max_pool2d(layer(h), 2))
        h = h.permute(0, 2, 3, 1).flatten(1)  # no copy
        for layer in self.hidden:
            h = F.relu(layer(h))
        return self.last(h)


class ConvNorm(nn.Module):
    """A convolution, normalised by groups of channels; or with a bias where there is no norm."""

    def __init__(self, model: dict, leaves: Leaves, name: str, stride: int = 1):
        super().__init__()
        padding = len(leaves[f"{name}/W"]) // 2
        self.convolution = convolution(leaves, name, stride, padding)
        self.norm = None
        if model["norm"] == "group":
            scale = leaves[f"{name}/scale"]
            self.norm = nn.GroupNorm(model["groups"], len(scale))
            _give(self.norm, scale, leaves[f"{name}/shift"])

    def forward(self, x):
        h = self.convolution(x)
        return h if self.norm is None else self.norm(h)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and the values that they are added to."""

    def __init__(self, model: dict, leaves: Leaves, name: str):
        super().__init__()
        *_, fan_in, fan_out = leaves[f"{name}_first/W"].shape
        self.new_channels = fan_out - fan_in
        self.stride = 2 if self.new_channels else 1
        self.first = ConvNorm(model, leaves, f"{name}_first", self.stride)
        self.second = ConvNorm(model, leaves, f"{name}_second")
        self.shortcut = None
        if f"{name}_shortcut/W" in leaves:
            self.shortcut = ConvNorm(model, leaves, f"{name}_shortcut", self.stride)

    def forward(self, x):
        h = self.second(F.relu(self.first(x), inplace=True))
        if self.shortcut is not None:
            x = self.shortcut(x)
        elif self.new_channels:  # option A
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels))
        h += x
        return F.relu(h, inplace=True)


class ResNet(nn.Module):
    """Residual networks without statistics of batches."""

    def __init__(self, model: dict, leaves: Leaves):
        super().__init__()
        blocks = _numbered({name: None for name in leaves if name.endswith("_first/W")}, "block")
        names = [name.removesuffix("_first") for name in blocks]
        self.stem = ConvNorm(model, leaves, "stem")
        self.blocks = nn.Sequential(*[BasicBlock(model, leaves, name) for name in names])
        self.last = linear(leaves, "last")

    def forward(self, x):
        h = F.relu(self.stem(channels_first(x)), inplace=True)
        return self.last(self.blocks(h).mean((2, 3)))


class CharLSTM(nn.Module):
    """Embedding, layers of LSTM, classes."""

    def __init__(self, model: dict, leaves: Leaves):
        super().__init__()
        self.per_token = model["per_token"]
        self.embedding = embedding(leaves) if "embedding/W" in leaves else None
        names = _numbered(leaves, "layer")
        width = len(leaves["last/W"])
        self.lstm = nn.LSTM(len(leaves["layer0/W"]) - width, width, len(names))
        for i, name in enumerate(names):
            W = leaves[f"{name}/W"]
            values = {
                "weight_ih": W[:-width].T,
                "weight_hh": W[-width:].T,
                "bias_ih": leaves[f"{name}/b"],
                "bias_hh": np.zeros_like(leaves[f"{name}/b"]),
            }
            for kind, value in values.items():
                setattr(self.lstm, f"{kind}_l{i}", _parameter(value))
            # torch has two biases that are added; two would learn twice as fast as one.
            getattr(self.lstm, f"bias_hh_l{i}").requires_grad_(False)
        self.last = linear(leaves, "last")

    def forward(self, x):
        h = x.transpose(0, 1)  # [B, T, ...] -> [T, B, ...]
        h = h.flatten(2) if self.embedding is None else self.embedding(h)
        h, _ = self.lstm(h)
        return self.last(h.transpose(0, 1) if self.per_token else h[-1])


class AttentionBlock(nn.Module):
    """Attention and a perceptron, both normalised first."""

    def __init__(self, model: dict, leaves: Leaves, name: str):
        super().__init__()
        self.heads = model["heads"]
        self.norm0 = layer_norm(leaves, f"{name}_norm0")
        self.attention = linear(leaves, f"{name}_attention")
        self.mixed = linear(leaves, f"{name}_mixed")
        self.norm1 = layer_norm(leaves, f"{name}_norm1")
        self.wide = linear(leaves, f"{name}_wide")
        self.narrow = linear(leaves, f"{name}_narrow")

    def forward(self, h, causal: bool, queries: int):
        """[B, T, D] -> the last positions, [B, queries, D]."""
        QKV = self.attention(self.norm0(h)).unflatten(-1, (3, self.heads, -1))
        Q, K, V = QKV.permute(2, 0, 3, 1, 4)  # each [B, heads, T, d]
        seen = F.scaled_dot_product_attention(Q[:, :, -queries:], K, V, is_causal=causal)
        h = h[:, -queries:] + self.mixed(seen.transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.wide(self.norm1(h)), approximate="tanh"))


class Transformer(nn.Module):
    """A small transformer, as GPT-2."""

    def __init__(self, model: dict, leaves: Leaves):
        super().__init__()
        self.per_token = model["per_token"]
        has_tokens = "embedding/b" not in leaves
        self.embedding = embedding(leaves) if has_tokens else linear(leaves, "embedding")
        self.positions = _parameter(leaves["positions/W"])
        blocks = _numbered({name: None for name in leaves if name.endswith("_wide/W")}, "block")
        names = [name.removesuffix("_wide") for name in blocks]
        self.blocks = nn.ModuleList(AttentionBlock(model, leaves, name) for name in names)
        self.norm = layer_norm(leaves, "norm")
        self.last = linear(leaves, "last")

    def forward(self, x):
        h = self.embedding(x) + self.positions
        *blocks, last_block = self.blocks
        for block in blocks:
            h = block(h, self.per_token, h.shape[1])
        # A sample with one label needs only the last position.
        h = last_block(h, self.per_token, h.shape[1] if self.per_token else 1)
        h = self.last(self.norm(h))
        return h if self.per_token else h[:, -1]


NETWORKS = {
    "logistic": logistic,
    "mlp": mlp,
    "cnn": ConvNet,
    "lenet": ConvNet,
    "resnet": ResNet,
    "char_lstm": CharLSTM,
    "transformer": Transformer,
}


def channels_first(x):
    """Images [B, H, W] or [B, H, W, C] as torch's [B, C, H, W], without a copy."""
    return x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2)


def linear(leaves: Leaves, name: str) -> nn.Linear:
    return _given(nn.Linear, leaves[f"{name}/W"].T, leaves[f"{name}/b"])


def convolution(leaves: Leaves, name: str, stride: int = 1, padding: int | str = 0) -> nn.Conv2d:
    W = leaves[f"{name}/W"].transpose(3, 2, 0, 1)  # [out, C, k, k]
    out, channels, k, _ = W.shape
    b = leaves.get(f"{name}/b")
    layer = nn.Conv2d(channels, out, k, stride, padding, bias=b is not None)
    _give(layer, W, b)
    return layer


def layer_norm(leaves: Leaves, name: str) -> nn.LayerNorm:
    return _given(nn.LayerNorm, leaves[f"{name}/scale"], leaves[f"{name}/shift"])


def embedding(leaves: Leaves) -> nn.Embedding:
    return nn.Embedding.from_pretrained(_tensor(leaves["embedding/W"]), freeze=False)


def _given(layer: type, weight: np.ndarray, bias: np.ndarray):
    """A layer of the sizes of its weight, with the weight and the bias."""
    made = layer(*weight.shape[::-1])
    _give(made, weight, bias)
    return made


def _give(layer: nn.Module, weight: np.ndarray, bias: np.ndarray | None) -> None:
    layer.weight = _parameter(weight)
    if bias is not None:
        layer.bias = _parameter(bias)


def _parameter(value: np.ndarray) -> nn.Parameter:
    return nn.Parameter(_tensor(value))


def _tensor(value: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.ascontiguousarray(value))


def _numbered(leaves: dict, start: str) -> list[str]:
    """Names of the layers that begin like this, in the order of their numbers."""
    names = {name.split("/")[0] for name in leaves if name.startswith(start)}
    return sorted(names, key=lambda name: (len(name), name))
