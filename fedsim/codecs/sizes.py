"""Bits of the parts of messages. A value counts 32 bits, whatever type the simulator uses."""

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
    """⌈log₂ C(d, k)⌉: bits of a set of k of d places as its number among all such sets.

    Exact where k or d − k is at most 1000; else from the logarithm of the gamma function, which at
    d = 10⁸ is known to 10⁻⁶ bits: of the length that is rounded up, at most one bit is wrong.

    >>> [subset_bits(d, k) for d, k in ((100, 10), (1024, 1), (5, 5), (1_000_000, 10_000))]
    [44, 10, 0, 80786]
    """
    if min(k, d - k) <= EXACT:
        return index_bits(math.comb(d, k))
    return math.ceil(
        (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)
    )


def subset_bits_of(d: int, count: Int[Array, ""]) -> Float[Array, ""]:
    """log₂ C(d, count) by Stirling's series, where the count depends on x.

    Exact to 10⁻³ bits and 10⁻⁶ of it in float32.
    """
    k = jnp.maximum(jnp.minimum(count, d - count), 1).astype(jnp.float32)
    rest = jnp.maximum(d - k, 1)
    entropy = k * jnp.log(d / k) - rest * jnp.log1p(-k / max(d, 2))
    series = lambda n: 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    nats = (
        entropy
        - jnp.log(2 * jnp.pi * k * (rest / d)) / 2
        + series(float(d))
        - series(k)
        - series(rest)
    )
    return jnp.where((count <= 0) | (count >= d), 0, nats / math.log(2))


def size(count: Int[Array, ""], each: int, fixed: int = 0) -> Size:
    """Bits of `count` parts of `each` bits, plus `fixed`; exact while the bytes fit an int32."""
    eights = count // 8
    rest = count % 8
    return Size(
        count * (each // 8) + eights * (each % 8) + fixed // 8,
        rest * (each % 8) + fixed % 8,
    )


def plus(one: Bits, other: Bits) -> Bits:
    """Bits of both."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    (a, b), (c, e) = _as_size(one), _as_size(other)
    return Size(a + c, b + e)


def _as_size(bits: Bits) -> Size:
    if isinstance(bits, Size):
        return bits
    return Size(jnp.asarray(bits // 8, jnp.int32), jnp.asarray(bits % 8, jnp.int32))
