"""Integers modulo 2^bits, as secure aggregation sums them.

An integer stands in the upper `bits` bits of an int32. Sums of int32 wrap, so the sum of messages
is exact modulo 2^bits in any order, and the plain fold makes it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

WORD = 32


class Integers(NamedTuple):
    """A message of integers, or a sum or a mean of messages.

    Attributes:
      upper: the integers modulo 2^bits, in the upper bits `[d]`; this is all that travels.
      plain: the same integers, which do not wrap `[d]`; the simulator counts wraps by them.
    """

    upper: Int[Array, " d"] | Float[Array, " d"]
    plain: Float[Array, " d"]


def modular(whole: Float[Array, " d"] | Int[Array, " d"], bits: int) -> Integers:
    """Return whole numbers as integers modulo 2^bits: int32, or floats of any magnitude."""
    if jnp.issubdtype(whole.dtype, jnp.integer):
        return Integers(whole << (WORD - bits), whole.astype(jnp.result_type(float)))
    size = 2.0**bits
    magnitude = jnp.abs(whole)

    # Products with powers of two are exact.
    rest = magnitude - size * jnp.floor(magnitude / size)
    word = rest.astype(jnp.uint32) << (WORD - bits)
    word = jnp.where(whole < 0, -word, word)
    return Integers(jax.lax.bitcast_convert_type(word, jnp.int32), whole)


def centred(upper: Array, bits: int) -> Float[Array, " d"]:
    """Return the numbers that stand in the upper bits, in [−2^(bits − 1), 2^(bits − 1)).

    Args:
      upper: of a message or a sum; floats where a rule has divided the sum.
    """
    if jnp.issubdtype(upper.dtype, jnp.integer):
        upper = upper.astype(jnp.result_type(float))
    return upper / 2.0 ** (WORD - bits)


def wraps(total: Integers, bits: int) -> Int[Array, ""]:
    """Return in how many coordinates a sum of messages left [−2^(bits − 1), 2^(bits − 1)).

    Where it did, what is decoded is off by a multiple of 2^bits. The plain sum of K messages within
    the range is off by at most K² 2^(bits − 25) in float32, so that the count is exact for 4,000
    messages in any case.
    """
    off = jnp.abs(total.plain - centred(total.upper, bits))
    return jnp.sum(off > 2.0 ** (bits - 1), dtype=jnp.int32)
