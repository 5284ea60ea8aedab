"""Normalisation of images `[C, H, W, B]` by groups or the batch, and of positions `[..., C]`.

Means and variances of narrow floats, as bfloat16, are float32.
"""

from typing import Literal

import jax.numpy as jnp
from jax import lax

from fedsim.models.computing import widened
from fedsim.models.images import of_channels
from fedsim.models.sums import EPSILON, standardised

Norm = Literal["group", "batch", "none"]
DECAY = 0.9  # of batch normalisation's running statistics, per batch

Statistics = dict[str, jnp.ndarray]
"""Mean and variance by channel, `mean` and `var` `[C]`."""


def scale_and_shift(channels: int) -> dict:
    """The start of γ and β: one and zero per channel."""
    return {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}


def running(channels: int) -> Statistics:
    """The start of batch normalisation's running statistics."""
    return {"mean": jnp.zeros(channels), "var": jnp.ones(channels)}


def group_norm(p, x, groups: int):
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of each sample and group of C/groups channels.

    Wu & He 2018.
    """
    h = widened(x).reshape(groups, -1, x.shape[3])  # [G, C/G·H·W, B]
    h = standardised(h, 1)
    return h.reshape(x.shape).astype(x.dtype) * of_channels(p["scale"]) + of_channels(p["shift"])


def layer_norm(p, x):
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of the numbers at each position (Ba et al. 2016)."""
    h = standardised(widened(x), -1)
    return h.astype(x.dtype) * p["scale"] + p["shift"]


def batch_norm(p, statistics: Statistics, x, mask, train: bool):
    """γ (x − μ)/√(σ² + ε) + β per channel (Ioffe & Szegedy 2015) -> (values, statistics).

    In training, μ and σ² are those of the valid rows of the batch, and the running ones move
    towards them (σ² unbiased, as in torch); otherwise they are the running ones.

    Args:
      p: γ and β.
      statistics: the running ones.
      x: `[C, H, W, B]`.
      mask: `[B]`, True = a real row; None: all are.
      train: whether the batch's own statistics are used.
    """
    values_type = x.dtype
    x = widened(x)

    def normalised(mean, var):
        h = (x - of_channels(mean)) * of_channels(lax.rsqrt(var + EPSILON) * p["scale"])
        return h.astype(values_type)

    if not train:
        return normalised(**statistics) + of_channels(p["shift"]), statistics

    # Statistics of the valid rows.
    rows = jnp.ones(x.shape[3], bool) if mask is None else mask
    n = jnp.sum(rows).astype(x.dtype) * (x.shape[1] * x.shape[2])
    inverse = 1 / jnp.maximum(n, 1)
    mean = jnp.sum(jnp.where(rows, x, 0), (1, 2, 3)) * inverse
    squares = jnp.sum(jnp.where(rows, jnp.square(x - of_channels(mean)), 0), (1, 2, 3))
    var = squares * inverse

    # The running ones move towards them, unless there are no rows.
    unbiased = squares * (1 / jnp.maximum(n - 1, 1))
    of_batch = {"mean": mean, "var": unbiased}
    moved = {
        name: jnp.where(n > 0, old + (1 - DECAY) * (of_batch[name] - old), old)
        for name, old in statistics.items()
    }
    return normalised(mean, var) + of_channels(p["shift"]), moved
