"""Lengths of messages in an entropy code."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def omega_bits(k: Int[Array, " d"]) -> Int[Array, " d"]:
    """Length of the Elias ω code of integers k ≥ 1.

    It is 1, plus ⌊log₂ k⌋ + 1 for k, for ⌊log₂ k⌋, and so on until 1 is reached.

    >>> omega_bits(jnp.asarray([1, 2, 4, 8, 16])).tolist()
    [1, 3, 6, 7, 11]
    """
    bits = jnp.ones_like(k)
    for _ in range(4):  # 2³¹ > k → at most 30 → 4 → 2 → 1
        log = 31 - jax.lax.clz(k)
        bits = bits + jnp.where(k > 1, log + 1, 0)
        k = jnp.where(k > 1, log, k)
    return bits


def gaps_bits(levels: Int[Array, " d"]) -> Int[Array, ""]:
    """Length of a code of the levels that are not 0.

    Each takes its distance to the one before and its size in Elias ω code, and a sign.
    """
    index = jnp.arange(len(levels), dtype=jnp.int32)
    last = jax.lax.cummax(jnp.where(levels != 0, index, -1))
    before = jnp.concatenate([jnp.full(1, -1, jnp.int32), last[:-1]])
    bits = omega_bits(index - before) + 1 + omega_bits(jnp.abs(levels))
    return jnp.where(levels != 0, bits, 0).sum()


def dense_bits(levels: Int[Array, " d"]) -> Int[Array, ""]:
    """Length of a code of all levels: |level| + 1 in Elias ω code, and a sign where it is not 0."""
    return (omega_bits(jnp.abs(levels) + 1) + (levels != 0)).sum()


def arithmetic_bits(symbols: Int[Array, " d"], k: int) -> Float[Array, ""]:
    """Length of an arithmetic code of symbols 0 to k − 1, with the histogram n that it needs.

    Σ_r n_r log₂(d / n_r) + log₂ C(d + k − 1, k − 1)
    """
    d = len(symbols)
    counts = jnp.bincount(symbols, length=k).astype(float)
    histogram = (math.lgamma(d + k) - math.lgamma(k) - math.lgamma(d + 1)) / math.log(2)
    bits = jnp.where(counts > 0, counts * jnp.log2(d / jnp.maximum(counts, 1)), 0)
    return bits.sum() + histogram
