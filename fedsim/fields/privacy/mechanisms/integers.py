"""Random integers from a table of probabilities, by integer arithmetic alone.

Samplers in float32 would not do: a uniform number has 2^23 values, which cuts tails off, and tests
by logarithms of probabilities, as those of `jax.random.poisson`, are off by more than they compare
where the mean is above 10^5.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, UInt

WORD = 32

Probabilities = Callable[[float, int], np.ndarray]
"""(standard deviation, n) -> probabilities of −n/2, ..., n/2 − 1 `[n]`."""


class AliasTable(NamedTuple):
    """A distribution on −n/2, ..., n/2 − 1, with n a power of two.

    A draw takes a column at random, and its number with probability `keep` / 2³², else its alias.

    Attributes:
      keep: how often a column keeps its number, of 2³² times.
      alias: the other number of the column.
    """

    keep: UInt[np.ndarray, " n"]
    alias: Int[np.ndarray, " n"]


def width(std: float) -> int:
    """Return n, such that all but 10⁻¹⁶ of the probability lies on −n/2, ..., n/2 − 1."""
    half = 9 * std + 20
    return 1 << math.ceil(math.log2(2 * half))


def discrete_gaussian(std: float, n: int) -> np.ndarray:
    """Return probabilities proportional to exp(−k²/2σ²), with the parameter σ = `std`."""
    k = np.arange(n) - n // 2
    weights = np.exp(-(k**2) / (2 * std * std))
    return weights / weights.sum()


def skellam(std: float, n: int) -> np.ndarray:
    """Return those of the difference of two Poisson numbers, with the variance σ² = `std`²."""
    angles = 2 * np.pi * np.arange(n // 2 + 1) / n
    characteristic = np.exp(std * std * (np.cos(angles) - 1))
    return np.fft.fftshift(np.fft.irfft(characteristic, n)).clip(min=0)


@functools.lru_cache(16)
def alias_table(probabilities: Probabilities, std: float) -> AliasTable:
    """Return the table of a distribution; its total variation distance is below 2⁻³².

    References:
      Walker 1977, An Efficient Method for Generating Discrete Random Variables with General
      Distributions; filled in linear time by Vose 1991.
    """
    n = width(std)
    p = probabilities(std, n)
    rest = (p * (n / p.sum())).tolist()  # of each column, in units of 1/n
    alias = list(range(n))
    small = [i for i in range(n) if rest[i] < 1]
    large = [i for i in range(n) if rest[i] >= 1]
    while small and large:
        low = small.pop()
        high = large[-1]
        alias[low] = high
        rest[high] -= 1 - rest[low]
        if rest[high] < 1:
            small.append(large.pop())

    # What rounding has left over fills its column alone.
    for i in small + large:
        alias[i] = i
    keep = np.clip(np.rint(np.array(rest) * 2.0**WORD), 0, 2**WORD - 1)
    return AliasTable(keep.astype(np.uint32), np.array(alias, np.int32) - n // 2)


def draw(table: AliasTable, key: Key[Array, ""], size: int) -> Int[Array, " size"]:
    """Return independent integers of a distribution `[size]`."""
    n = len(table.keep)
    words = jax.random.bits(key, (2, size), jnp.uint32)
    column = (words[0] >> (WORD - (n - 1).bit_length())).astype(jnp.int32)
    kept = words[1] < jnp.asarray(table.keep)[column]
    return jnp.where(kept, column - n // 2, jnp.asarray(table.alias)[column])
