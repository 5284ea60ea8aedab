"""Normalisation of images `[C, H, W, B]` by groups or the batch, and of positions `[..., C]`.

Means and variances of narrow floats, as bfloat16, are float32.
"""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.models.computing import widened
from fedsim.models.images import of_channels

Norm = Literal["group", "batch", "none"]
EPSILON = 1e-5
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
    return _group_norm(x, p["scale"], p["shift"], groups)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _group_norm(x, scale, shift, groups: int):
    return _normalised(x, scale, shift, groups)[0]


def _normalised(x, scale, shift, groups: int):
    h = widened(x)
    mean = _of_groups(_over_pixels(h), groups, x)
    squares = jnp.square(h - _of_pixels(mean))
    var = _of_groups(_over_pixels(squares), groups, x)
    inverse = lax.rsqrt(var + EPSILON)
    y = (h - _of_pixels(mean)) * _of_pixels(inverse * scale[:, None]) + of_channels(shift)
    return y.astype(x.dtype), (x, scale, mean, inverse)


def _gradients(groups: int, inputs, g):
    x, scale, mean, inverse = inputs
    g = widened(g)
    centred = widened(x) - _of_pixels(mean)
    sums = _over_pixels(g)
    products = _over_pixels(g * centred) * inverse
    scaled = scale[:, None]
    of_sums = _of_groups(sums * scaled, groups, x)
    of_products = _of_groups(products * scaled, groups, x)
    d_x = (
        g * _of_pixels(scaled * inverse)
        - centred * _of_pixels(inverse * inverse * of_products)
        - _of_pixels(inverse * of_sums)
    )
    return d_x.astype(x.dtype), jnp.sum(products, 1), jnp.sum(sums, 1)


_group_norm.defvjp(_normalised, _gradients)


def _over_pixels(x):
    C, H, W, B = x.shape
    return jnp.sum(x, (1, 2))


def _of_groups(sums, groups: int, x):
    """Means [C, B]"""
    C, H, W, B = x.shape
    means = jnp.sum(sums.reshape(groups, -1, B), 1) / (C // groups * H * W)
    return jnp.repeat(means, C // groups, 0)


def _of_pixels(p):
    return p[:, None, None, :]


def layer_norm(p, x):
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of the numbers at each position (Ba et al. 2016)."""
    h = widened(x)
    centred = h - jnp.mean(h, -1, keepdims=True)
    var = jnp.mean(jnp.square(centred), -1, keepdims=True)
    h = centred * lax.rsqrt(var + EPSILON)
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
