"""Normalisation: by groups of channels and by the batch on images `[B, H, W, C]`, and of every position `[..., C]`."""

from typing import Literal

import jax.numpy as jnp
from jax import lax

Norm = Literal["group", "batch", "none"]
EPSILON = 1e-5
KEPT = 0.9  # of batch normalisation's running statistics, a batch

Statistics = dict[str, jnp.ndarray]  # mean and var [C]


def scale_and_shift(channels: int) -> dict:
    """The start of γ and β: one and zero per channel."""
    return {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}


def running(channels: int) -> Statistics:
    """The start of batch normalisation's statistics."""
    return {"mean": jnp.zeros(channels), "var": jnp.ones(channels)}


def group_norm(p, x, groups: int):
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of every sample and group of C/groups channels (Wu & He 2018)."""
    B, H, W, C = x.shape
    h = x.reshape(B, H * W, groups, C // groups)
    mean = jnp.mean(h, (1, 3), keepdims=True)
    var = jnp.mean(jnp.square(h - mean), (1, 3), keepdims=True)
    h = (h - mean) * lax.rsqrt(var + EPSILON)
    return h.reshape(x.shape) * p["scale"] + p["shift"]


def layer_norm(p, x):
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of the numbers of every position (Ba et al. 2016)."""
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(jnp.square(centred), -1, keepdims=True) + EPSILON) * p["scale"] + p["shift"]


def batch_norm(p, statistics: Statistics, x, mask, train: bool):
    """γ (x − μ)/√(σ² + ε) + β per channel (Ioffe & Szegedy 2015) -> (values, statistics).

    In training μ and σ² are those of the valid rows of the batch, and the running ones move towards them (σ² unbiased,
    as in torch); otherwise they are the running ones.

    Args:
      p: γ and β.
      statistics: the running ones.
      x: `[B, H, W, C]`.
      mask: `[B]`, True = a real row; None: all are.
      train: whether the batch's own statistics are used.
    """
    if not train:
        h = (x - statistics["mean"]) * lax.rsqrt(statistics["var"] + EPSILON)
        return h * p["scale"] + p["shift"], statistics
    rows = jnp.ones(len(x), bool) if mask is None else mask
    valid = rows[:, None, None, None]
    n = jnp.sum(rows).astype(x.dtype) * (x.shape[1] * x.shape[2])
    inverse = 1 / jnp.maximum(n, 1)
    mean = jnp.sum(jnp.where(valid, x, 0), (0, 1, 2)) * inverse
    squares = jnp.sum(jnp.where(valid, jnp.square(x - mean), 0), (0, 1, 2))
    var = squares * inverse
    unbiased = squares * (1 / jnp.maximum(n - 1, 1))
    moved = {"mean": mean, "var": unbiased}
    new = {name: jnp.where(n > 0, old + (1 - KEPT) * (moved[name] - old), old) for name, old in statistics.items()}
    return (x - mean) * lax.rsqrt(var + EPSILON) * p["scale"] + p["shift"], new
