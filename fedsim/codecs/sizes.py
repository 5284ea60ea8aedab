"""Bits of the parts of messages.

Values and scalars count 32 bits, whatever the simulator's float type.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim.types import Bits, Size

VALUE_BITS = 32
SEED_BITS = 32
EXACT = 1000  # the most binomial coefficients of k out of d that are computed as integers


def index_bits(d: int) -> int:
    """⌈log₂ d⌉: bits of a number from 0 to d − 1.

    >>> [index_bits(d) for d in (1, 2, 3, 1000, 1024, 1025)]
    [0, 1, 2, 10, 10, 11]
    """
    return max(d - 1, 0).bit_length()


def subset_bits(d: int, k: int) -> int:
    """⌈log₂ C(d, k)⌉: bits of a set of k of d indices as its number among all such sets.

    Exact where k or d − k is at most 1000; else from the logarithm of the gamma function, which has
    an error of 10⁻⁶ bits at d = 10⁸, so that the rounded length is off by at most one bit.

    >>> [subset_bits(d, k) for d, k in ((100, 10), (1024, 1), (5, 5), (1_000_000, 10_000))]
    [44, 10, 0, 80786]
    """
    if min(k, d - k) <= EXACT:
        return index_bits(math.comb(d, k))
    nats = math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)
    return math.ceil(nats / math.log(2))


def subset_bits_of(d: int, count: Int[Array, ""]) -> Float[Array, ""]:
    """log₂ C(d, count) by Stirling's series, for a count that depends on x.

    In float32 the error is at most 10⁻³ bits and 10⁻⁶ of the result.
    """
    k = jnp.maximum(jnp.minimum(count, d - count), 1).astype(jnp.float32)
    rest = jnp.maximum(d - k, 1)
    entropy = k * jnp.log(d / k) - rest * jnp.log1p(-k / max(d, 2))
    series = lambda n: 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    root = jnp.log(2 * jnp.pi * k * (rest / d)) / 2
    nats = entropy - root + series(float(d)) - series(k) - series(rest)
    return jnp.where((count <= 0) | (count >= d), 0, nats / math.log(2))


def size(count: Int[Array, ""], each: int, fixed: int = 0) -> Size:
    """The size of `count` items of `each` bits, and `fixed` bits more.

    It is exact as long as the bytes fit in an int32.
    """
    eights = count // 8
    rest = count % 8
    return Size(
        bytes=count * (each // 8) + eights * (each % 8) + fixed // 8,
        bits=rest * (each % 8) + fixed % 8,
    )


def plus(first: Bits, second: Bits) -> Bits:
    """The sum of two sizes."""
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    first = _as_size(first)
    second = _as_size(second)
    return Size(first.bytes + second.bytes, first.bits + second.bits)


def _as_size(bits: Bits) -> Size:
    if isinstance(bits, Size):
        return bits
    return Size(jnp.asarray(bits // 8, jnp.int32), jnp.asarray(bits % 8, jnp.int32))
