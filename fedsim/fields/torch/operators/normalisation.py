"""Normalisation by batches, groups and layers; inputs `[B, C, ...]`."""

import jax.numpy as jnp
from jax import lax

from fedsim.fields.torch.operators.registry import operator


@operator("_native_batch_norm_legit_functional.default", masked=True)
def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, *, mask):
    """-> (values, mean, 1/√(σ² + ε), running mean, running variance).

    Mean and variance are those of the rows of the batch that count.
    """
    if not training:
        values, mean, inverse = batch_norm_of_running(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
        return values, mean, inverse, running_mean, running_var

    mean, squares, n = _moments(x, mask)
    inverse = lax.rsqrt(squares / jnp.maximum(n, 1) + eps)
    values = _normalised(x, mean, inverse, weight, bias)

    unbiased = squares / jnp.maximum(n - 1, 1)
    moved = [
        jnp.where(n > 0, (1 - momentum) * old + momentum * new, old)
        for old, new in ((running_mean, mean), (running_var, unbiased))
    ]
    return values, mean, inverse, *moved


@operator("_native_batch_norm_legit.no_stats", masked=True)
def batch_norm_without_running(x, weight, bias, training, momentum, eps, *, mask):
    mean, squares, n = _moments(x, mask)
    inverse = lax.rsqrt(squares / jnp.maximum(n, 1) + eps)
    return _normalised(x, mean, inverse, weight, bias), mean, inverse


@operator("_native_batch_norm_legit_no_training.default")
def batch_norm_of_running(x, weight, bias, running_mean, running_var, momentum, eps):
    inverse = lax.rsqrt(running_var + eps)
    return _normalised(x, running_mean, inverse, weight, bias), running_mean, inverse


def _moments(x, mask):
    """Mean per channel, Σ (x − mean)², and of how many numbers."""
    axes = (0, *range(2, x.ndim))
    rows = jnp.ones(len(x), bool) if mask is None else mask
    counts = rows.reshape(-1, *(1,) * (x.ndim - 1))
    n = jnp.sum(rows).astype(x.dtype) * (x.size // max(len(x) * x.shape[1], 1))
    mean = jnp.sum(jnp.where(counts, x, 0), axes) / jnp.maximum(n, 1)
    squares = jnp.sum(jnp.where(counts, jnp.square(x - _of_channels(mean, x)), 0), axes)
    return mean, squares, n


def _normalised(x, mean, inverse, weight, bias):
    scale = inverse if weight is None else inverse * weight
    values = (x - _of_channels(mean, x)) * _of_channels(scale, x)
    return values if bias is None else values + _of_channels(bias, x)


def _of_channels(p, x):
    """A number per channel `[C]`, broadcast against `[B, C, ...]`."""
    return p.reshape(-1, *(1,) * (x.ndim - 2))


@operator("native_group_norm.default")
def group_norm(x, weight, bias, N, C, HxW, group, eps):
    """-> (values, means of groups, 1/√(σ² + ε))."""
    apart = x.reshape(N, group, -1)
    values, mean, inverse = _standardised(apart, (2,), eps)
    values = values.reshape(x.shape)
    if weight is not None:
        values = values * _of_channels(weight, x)
    if bias is not None:
        values = values + _of_channels(bias, x)
    return values, mean[..., 0], inverse[..., 0]


@operator("native_layer_norm.default")
def layer_norm(x, normalized_shape, weight, bias, eps):
    """-> (values, means, 1/√(σ² + ε))."""
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    values, mean, inverse = _standardised(x, axes, eps)
    if weight is not None:
        values = values * weight
    if bias is not None:
        values = values + bias
    return values, mean, inverse


def _standardised(x, axes, eps):
    mean = jnp.mean(x, axes, keepdims=True)
    centred = x - mean
    inverse = lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + eps)
    return centred * inverse, mean, inverse
