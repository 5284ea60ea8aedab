"""The networks of `scenarios/bench/networks`, as modules of torch from our start values."""

import sys

import jax
import numpy as np
import torch
from torch import nn

from fedsim import models
from fedsim.tools.bench.peer_rounds import by_path
from fedsim.tools.bench.peers import FOREIGN

sys.path.append(str(FOREIGN))
from torch_networks import network

DEFAULTS = {"norm": "group", "groups": 2}


class ChannelsLast(nn.Module):
    """A network that takes images [B, H, W, C], for images [B, C, H, W]."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.permute(0, 2, 3, 1))


def started(shape: tuple[int, ...], classes: int, kind: str, **parameters) -> dict:
    """The variables of our network, in float64."""
    model = getattr(models, kind)(**parameters)(shape, classes)
    with jax.enable_x64(True):
        return jax.jit(model.init)(jax.random.key(0))


def module_of(variables: dict, shape: tuple[int, ...], kind: str, **parameters) -> nn.Module:
    """A module with the variables of our network, which may have batch norm.

    Args:
      variables: `params`, and `stats` of batch norm.
      shape: of a sample.
      kind: of the network.
      parameters: of the kind.
    """
    section = {**DEFAULTS, **parameters, "kind": kind}
    has_batch_norm = section["norm"] == "batch"
    if has_batch_norm:
        section["norm"] = "group"
    net = network(section, by_path(variables["params"]))
    if has_batch_norm:
        _replace_group_norm(net, variables["stats"])
    return ChannelsLast(net) if len(shape) == 3 else net


@torch.no_grad()
def _replace_group_norm(net: nn.Module, stats: dict) -> None:
    """Put batch norm with these statistics in its place."""
    for path, module in list(net.named_modules()):
        if isinstance(module, nn.GroupNorm):
            layer = path.removesuffix(".norm")
            norm = nn.BatchNorm2d(module.num_channels).double()
            norm.weight, norm.bias = module.weight, module.bias
            of_layer = stats[layer.replace("blocks.", "block").replace(".", "_")]
            norm.running_mean.copy_(torch.tensor(np.array(of_layer["mean"])))
            norm.running_var.copy_(torch.tensor(np.array(of_layer["var"])))
            net.get_submodule(layer).norm = norm
