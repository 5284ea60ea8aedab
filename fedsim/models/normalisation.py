"""Normalisation of images `[C, H, W, B]` by groups or the batch, and of positions `[..., C]`.

Means and variances of narrow floats, as bfloat16, are float32.
"""

import functools
from typing import Any, Literal

import jax
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


def group_norm(p, x, groups: int) -> jax.Array:
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of each sample and group of C/groups channels.

    Wu & He 2018.

    Args:
      x: `[C, H, W, B]`.
      groups: groups of channels; divides C.
    """
    y: Any = _group_norm(x, p["scale"], p["shift"], groups)
    return y


# All sums are over the pixels of one channel and sample, `[C, H, W, B] -> [C, B]`, and those of
# groups are made of them. Autodiff sums products over `[groups, C/groups·H·W, B]`, for which XLA's
# CPU needs 10 ns per number, ten times as long, and sums for γ and β once more.
@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _group_norm(x, scale, shift, groups: int):
    return _group_norm_forward(x, scale, shift, groups)[0]


def _group_norm_forward(x, scale, shift, groups: int):
    h = widened(x)
    mean = _mean_of_groups(_sum_of_pixels(h), groups, x)
    centred = h - _of_pixels(mean)
    var = _mean_of_groups(_sum_of_pixels(jnp.square(centred)), groups, x)
    inverse = lax.rsqrt(var + EPSILON)  # 1/√(σ² + ε)
    y = centred * _of_pixels(inverse * scale[:, None]) + of_channels(shift)
    return y.astype(x.dtype), (x, scale, mean, inverse)


def _group_norm_gradients(groups: int, inputs, g):
    """With x̂ = (x − μ)/√(σ² + ε): (γ g − mean of γ g − x̂ · mean of γ g x̂)/√(σ² + ε).

    Its means are over groups; those of γ and β are Σ g x̂ and Σ g.
    """
    x, scale, mean, inverse = inputs
    g = widened(g)
    centred = widened(x) - _of_pixels(mean)
    sums = _sum_of_pixels(g)  # [C, B]
    products = _sum_of_pixels(g * centred) * inverse

    mean_of_sums = _mean_of_groups(scale[:, None] * sums, groups, x)
    mean_of_products = _mean_of_groups(scale[:, None] * products, groups, x)
    without_mean = of_channels(scale) * g - _of_pixels(mean_of_sums)
    without_both = without_mean - centred * _of_pixels(inverse * mean_of_products)
    d_x = without_both * _of_pixels(inverse)

    d_scale = jnp.sum(products, 1)
    d_shift = jnp.sum(sums, 1)
    return d_x.astype(x.dtype), d_scale.astype(scale.dtype), d_shift.astype(scale.dtype)


_group_norm.defvjp(_group_norm_forward, _group_norm_gradients)


def _sum_of_pixels(x):
    """`[C, H, W, B]` -> `[C, B]`."""
    return jnp.sum(x, (1, 2))


def _mean_of_groups(sums, groups: int, x):
    """Means over groups of channels of x, of the sums over its pixels.

    Args:
      sums: of every channel and sample `[C, B]`.

    Returns:
      `[C, B]`, the same for all channels of a group.
    """
    C, height, width, B = x.shape
    channels = C // groups
    means = jnp.sum(sums.reshape(groups, channels, B), 1) / (channels * height * width)
    return jnp.repeat(means, channels, 0)


def _of_pixels(p):
    """A number per channel and sample `[C, B]`, broadcast against images `[C, H, W, B]`."""
    return p[:, None, None, :]


def layer_norm(p, x):
    """γ (x − μ)/√(σ² + ε) + β, with μ and σ² of the numbers at each position (Ba et al. 2016)."""
    h: Any = standardised(widened(x))
    return h.astype(x.dtype) * p["scale"] + p["shift"]


def batch_norm(p, statistics: Statistics, x, mask, train: bool):
    """γ (x − μ)/√(σ² + ε) + β per channel (Ioffe & Szegedy 2015) -> (values, statistics).

    In training, μ and σ² are those of the valid rows of the batch, and the running ones move
    towards them (σ² unbiased, as in torch); otherwise they are the running ones.

    Args:
      x: `[C, H, W, B]`.
      mask: `[B]`, True = a real row; None: all are.
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
