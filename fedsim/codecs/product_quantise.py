"""Product quantisation: messages as indices of code words, with a code book for each message."""

import math
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Float, Int

from fedsim.codecs.sizes import VALUE_BITS, index_bits
from fedsim.compose import codec
from fedsim.types import Codec

GROUP = 8  # code words that are compared in one pass over the sub-vectors
RUN = 512  # a draw first chooses among sums of the weights of this many sub-vectors

Columns = Float[Array, "block n"]
"""Sub-vectors or code words, as columns."""


class Quantised(NamedTuple):
    """A code book, and the index of the code word of every sub-vector."""

    codebook: Float[Array, "block codewords"]
    codes: Int[Array, " n"]


@codec
def product_quantise(
    block: Annotated[int, Ge(1), Le(64)] = 8,
    codewords: Annotated[int, Ge(2), Le(65_536)] = 256,
    iterations: Annotated[int, Ge(0), Le(1000)] = 5,
) -> Codec:
    """Sends the nearest word of a code book for every sub-vector of a message, and the code book.

    The code book comes from the n = ⌈d/block⌉ sub-vectors of the message by k-means: code words
    are drawn by k-means++, then `iterations` times each becomes the mean of the sub-vectors nearest
    to it (a word without any does not change). Of equally near code words the first is taken. The
    error is zero where there are no more distinct sub-vectors than code words; distinct means a
    difference of more than 10⁻¹⁹ of the largest coordinate (in float64 10⁻¹⁵⁴). Biased.

    Bits: 32 · codewords · block + n ⌈log₂ codewords⌉, with n instead of `codewords` where there are
    fewer sub-vectors than code words. The last sub-vector is padded with zeros, which count in its
    code word but are not decoded.
    Cost: O(d · codewords) per client for the start and each iteration, and O(d) memory.

    Args:
      block: coordinates of a sub-vector.
      codewords: entries of the code book.
      iterations: how many iterations of Lloyd's algorithm.

    References:
      Jégou, Douze, Schmid 2011, Product Quantization for Nearest Neighbor Search, IEEE TPAMI 33(1);
      one code book for all sub-vectors of a network's layer: Stock et al. 2020, And the Bit Goes
      Down, arXiv:1907.05686, here for the whole message; in federated learning: Prasad et al. 2022,
      Reconciling Security and Communication Efficiency in Federated Learning, arXiv:2207.12779.
      Start: Arthur, Vassilvitskii 2007, k-means++; Lloyd 1982.
    """

    def encode(x, memory, key):
        n = math.ceil(len(x) / block)
        words = min(codewords, n)
        columns = jnp.pad(x, (0, -len(x) % block)).reshape(n, block).T
        sub, unit = scaled(columns)
        codebook = started(sub, jax.random.uniform(key, (words,), x.dtype))
        codebook = jax.lax.fori_loop(0, iterations, lambda _, words: improved(sub, words), codebook)
        payload = Quantised(codebook * unit, nearest(sub, codebook))
        bits = VALUE_BITS * words * block + n * index_bits(words)
        return payload, bits, memory

    def decode(payload, d):
        return payload.codebook[:, payload.codes].T.reshape(-1)[:d]

    return Codec(encode, decode)


def scaled(sub: Columns) -> tuple[Columns, Float[Array, ""]]:
    """Scale sub-vectors by a power of two, at most the largest |coordinate| -> (scaled, unit).

    Where no number is normal, the unit is 1.
    """
    largest = jnp.abs(sub).max()
    mantissa, _ = jnp.frexp(largest)
    is_normal = largest >= jnp.finfo(sub.dtype).tiny
    unit = jnp.where(is_normal, largest / 2 / jnp.where(mantissa > 0, mantissa, 1), 1)
    return sub / unit, unit


def started(sub: Columns, u: Float[Array, " codewords"]) -> Columns:
    """Draw a code book by k-means++.

    Each code word is a sub-vector, drawn with a probability ∝ its squared distance to the nearest
    word before it.
    """

    def draw(i, state):
        codebook, distance = state
        word = sub[:, drawn(distance, u[i])]
        return codebook.at[:, i].set(word), jnp.minimum(distance, distances(sub, word))

    n = sub.shape[1]
    first = jnp.minimum((u[0] * n).astype(jnp.int32), n - 1)
    word = sub[:, first]
    codebook = jnp.zeros((len(sub), len(u)), sub.dtype).at[:, 0].set(word)
    return jax.lax.fori_loop(1, len(u), draw, (codebook, distances(sub, word)))[0]


def drawn(weights: Float[Array, " n"], u: Float[Array, ""]) -> Int[Array, ""]:
    """Draw an index with a probability ∝ its weight, by a number u from [0, 1).

    An index of weight 0 is never drawn unless all weights are 0.
    """
    runs = jnp.pad(weights, (0, -len(weights) % RUN)).reshape(-1, RUN)
    ends = jnp.cumsum(runs.sum(1))
    run = jnp.searchsorted(ends[:-1], u * ends[-1], side="right")
    before = jnp.where(run > 0, ends[run - 1], 0)
    in_run = jnp.searchsorted(jnp.cumsum(runs[run])[:-1], u * ends[-1] - before, side="right")
    index = jnp.minimum(run * RUN + in_run, len(weights) - 1)

    # As sums are rounded, the search may end at a weight of 0.
    return jnp.where(weights[index] > 0, index, weights.argmax())


def improved(sub: Columns, codebook: Columns) -> Columns:
    """Run an iteration of Lloyd's algorithm.

    Means are relative to the old code words, so that the mean of equal sub-vectors is exact.
    """
    codes = nearest(sub, codebook)
    count = jnp.zeros(codebook.shape[1], sub.dtype).at[codes].add(1)
    offset = jnp.zeros_like(codebook).at[:, codes].add(sub - codebook[:, codes])
    return jnp.clip(codebook + offset / jnp.maximum(count, 1), sub.min(), sub.max())


def nearest(sub: Columns, codebook: Columns) -> Int[Array, " n"]:
    """The index of the nearest code word of every sub-vector, of equally near ones the first."""
    padding = -codebook.shape[1] % GROUP
    codebook = jnp.pad(codebook, ((0, 0), (0, padding)), constant_values=jnp.inf)

    def compare(group, state):
        least, codes = state
        for index in [group * GROUP + i for i in range(GROUP)]:
            distance = distances(sub, codebook[:, index])
            nearer = distance < least
            least = jnp.where(nearer, distance, least)
            codes = jnp.where(nearer, index, codes)
        return least, codes

    n = sub.shape[1]
    start = jnp.full(n, jnp.inf, sub.dtype), jnp.zeros(n, jnp.int32)
    return jax.lax.fori_loop(0, codebook.shape[1] // GROUP, compare, start)[1]


def distances(sub: Columns, word: Float[Array, " block"]) -> Float[Array, " n"]:
    """Squared distances of all sub-vectors to a code word, summed in the order of coordinates."""
    total = jnp.square(sub[0] - word[0])
    for i in range(1, len(sub)):
        total = total + jnp.square(sub[i] - word[i])
    return total
