"""Operators that draw numbers, each with a key of its own."""

import jax
import jax.numpy as jnp

from fedsim.fields.torch.operators.registry import operator


@operator("native_dropout.default", keyed=True)
def dropout(x, p, train, *, key):
    """Numbers are kept with probability 1 − p and divided by it -> (values, which were kept)."""
    if not train or p == 0:
        return x, jnp.ones(x.shape, bool)
    kept = jax.random.bernoulli(key, 1 - p, x.shape)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return jnp.where(kept, x * scale, 0), kept


@operator("rand.default", keyed=True)
def rand(size, dtype=None, *, key):
    return jax.random.uniform(key, size, jnp.result_type(float) if dtype is None else dtype)


@operator("randn.default", keyed=True)
def randn(size, dtype=None, *, key):
    return jax.random.normal(key, size, jnp.result_type(float) if dtype is None else dtype)


@operator("rand_like.default", keyed=True)
def rand_like(x, dtype=None, *, key):
    return jax.random.uniform(key, x.shape, x.dtype if dtype is None else dtype)


@operator("randn_like.default", keyed=True)
def randn_like(x, dtype=None, *, key):
    return jax.random.normal(key, x.shape, x.dtype if dtype is None else dtype)


@operator("bernoulli.p", keyed=True)
def bernoulli(x, p=0.5, *, key):
    return jax.random.bernoulli(key, p, x.shape).astype(x.dtype)


@operator("bernoulli.default", keyed=True)
def bernoulli_of(x, *, key):
    return jax.random.bernoulli(key, x).astype(x.dtype)


@operator("randperm.default", keyed=True)
def randperm(n, dtype=None, *, key):
    return jax.random.permutation(key, n)
