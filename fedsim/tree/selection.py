"""The k largest of many numbers, and k random indices: the fastest of several ways to each."""

import math

import jax
import jax.numpy as jnp
from jax.lax import population_count
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from fedsim.tree import draws
from fedsim.tree.arithmetic import count

# Where fewer numbers than this come for each of the k largest, a search on the bits is faster than
# `top_k` on a CPU.
SEARCH = 128
WORD = 32

# Where at most one of this many indices is drawn, the same is rarely drawn twice.
RARE = 8


def largest(x: Float[Array, " d"], k: int) -> Int[Array, " k"]:
    """Indices of the k largest of the numbers x ≥ 0, ascending; of equal ones the lowest.

    Cost: O(d log k) for few of them; else 31 passes over d numbers of 32 bits, and 63 over those of
    64.
    """
    if x.dtype == jnp.float32 and k * SEARCH < len(x):
        return jnp.sort(jax.lax.top_k(x, k)[1])
    return by_search(x, k)


def by_search(x: Float[Array, " d"], k: int) -> Int[Array, " k"]:
    """`largest` by bisection on bits.

    The bits of floats that are not negative, read as integers, are in the order of the floats.
    """
    width = jnp.finfo(x.dtype).bits
    unsigned = jnp.dtype(f"uint{width}")
    bits = jax.lax.bitcast_convert_type(x, unsigned) & unsigned.type(2 ** (width - 1) - 1)

    def bit_of_least(i, least):
        candidate = least | unsigned.type(1) << (width - 2 - i).astype(unsigned)
        return jnp.where(count(bits >= candidate) >= k, candidate, least)

    least = jax.lax.fori_loop(0, width - 1, bit_of_least, jnp.zeros((), unsigned))

    # All that are larger than the k-th largest, and the first that equal it.
    above = bits > least
    equal = bits == least
    last = ranked(equal, k - above.sum(dtype=jnp.int32))
    selected = above | (equal & (jnp.arange(len(x)) <= last))
    return ranked(selected, 1 + jnp.arange(k))


def ranked(mask: Bool[Array, " d"], ranks: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """Indices of the true entries with these ranks, counted from 1.

    Entries are counted by words of 32 bits; a rank is searched among the counts, and then inside
    its word.
    """
    words = jnp.pad(mask, (0, -len(mask) % WORD)).reshape(-1, WORD).astype(jnp.uint32)
    words = (words << jnp.arange(WORD, dtype=jnp.uint32)).sum(1, dtype=jnp.uint32)
    ends = jnp.cumsum(population_count(words).astype(jnp.int32))
    word = jnp.searchsorted(ends, ranks)
    bits = words[word]
    rank = ranks - ends[word] + population_count(bits).astype(jnp.int32)  # inside the word
    index = word * WORD
    for half in (16, 8, 4, 2, 1):
        low = population_count(bits & jnp.uint32((1 << half) - 1)).astype(jnp.int32)
        beyond = rank > low
        rank = jnp.where(beyond, rank - low, rank)
        bits = jnp.where(beyond, bits >> half, bits)
        index = index + jnp.where(beyond, half, 0)
    return index


def random_indices(key: Key[Array, ""], d: int, k: int) -> Int[Array, " k"]:
    """Draw k different ones of d indices, all sets of k alike, in any order.

    Cost: a pass over d numbers, and O(k) where k is far below d; else d random numbers, and
    `largest`.
    """
    if k * RARE <= d:
        return _first_different(key, d, k)
    return largest(_positive(draws.bits(key, d)), k)


def _first_different(key: Key[Array, ""], d: int, k: int) -> Int[Array, " k"]:
    """The first k different indices of a random sequence: as none is preferred, a random set.

    The sequence is longer than needed by ten standard deviations; one that is still too short is
    drawn again.
    """
    # An index is the remainder of a random word. The last words, which are no full set of
    # remainders, give none.
    words = 2**32
    usable = words // d * d

    # Draws that give an earlier index once more, and words that give none, on average.
    repeated = k * k / (2 * (d - k))
    n = k + _almost_surely(repeated)
    n += _almost_surely(n * (words - usable) / usable)

    # Of the turns in which an index is drawn, the first one counts.
    turns = jnp.arange(n, dtype=jnp.int16 if n < 2**15 else jnp.int32)
    never = turns.dtype.type(jnp.iinfo(turns.dtype).max)
    nothing = jnp.full(k, d, jnp.int32)

    def draw(state):
        attempt, _ = state
        word = draws.bits(jax.random.fold_in(key, attempt), n)
        is_usable = word <= jnp.uint32(usable - 1)
        index = jnp.where(is_usable, (word % jnp.uint32(d)).astype(jnp.int32), d)
        first_turn = jnp.full(d, never).at[index].min(turns, mode="drop")
        is_new = (index < d) & (first_turn[jnp.minimum(index, d - 1)] == turns)
        position = jnp.where(is_new, jnp.cumsum(is_new) - 1, k)  # one of k and beyond is dropped
        return attempt + 1, nothing.at[position].set(index, mode="drop")

    def is_short(state):
        _, chosen = state
        return chosen[-1] == d

    return jax.lax.while_loop(is_short, draw, (jnp.zeros((), jnp.int32), nothing))[1]


def _almost_surely(mean: float) -> int:
    """A number that a count with this mean, of rare and independent events, does not exceed."""
    return math.ceil(mean + 10 * math.sqrt(mean) + 10)


def _positive(bits: UInt32[Array, " d"]) -> Float[Array, " d"]:
    """Positive normal floats in the order of the first 30 bits."""
    return jax.lax.bitcast_convert_type((bits >> 2) + jnp.uint32(0x20000000), jnp.float32)
