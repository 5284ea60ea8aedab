"""The randomised Hadamard rotation: spreads large coordinates over all others, in O(n log n)."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

WORD = 32


def padded(d: int) -> int:
    """The next power of two: the length of a rotated vector.

    >>> [padded(d) for d in (1, 2, 3, 1000, 1024, 1025)]
    [1, 2, 4, 1024, 1024, 2048]
    """
    return 1 << max(d - 1, 0).bit_length()


def signs(key: Key[Array, ""], n: int) -> Float[Array, " n"]:
    """±1 at random, from one bit each."""
    words = jax.random.bits(key, (-(-n // WORD),), jnp.uint32)
    return jnp.concatenate([1 - 2 * ((words >> i) & 1).astype(jnp.float32) for i in range(WORD)])[
        :n
    ]


def rotate(x: Float[Array, " d"], signs: Float[Array, " n"]) -> Float[Array, " n"]:
    """H D x / √n, with the signs on the diagonal of D and zeros behind x: ‖·‖ stays."""
    return transform(jnp.pad(signs.astype(x.dtype)[: len(x)] * x, (0, len(signs) - len(x))))


def unrotate(y: Float[Array, " n"], signs: Float[Array, " n"], d: int) -> Float[Array, " d"]:
    """The vector `[d]` of a rotated one: D H y / √n without its padding."""
    return (signs.astype(y.dtype) * transform(y))[:d]


def transform(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """The Walsh–Hadamard transform H x / √n, its own inverse; n is a power of two.

    Sums and differences of coordinates at a stride, three strides in one pass over memory, in the
    same order whatever else is computed beside it.
    """
    n = stride = len(x)
    while stride > 1:
        radix = min(8, stride)
        stride //= radix
        parts = x.reshape(-1, radix, stride)
        x = jnp.stack(_butterflies([parts[:, i] for i in range(radix)]), axis=1).reshape(n)
    return x / math.sqrt(n)


def _butterflies(parts: list[Array]) -> list[Array]:
    """The transform of so many arrays, not divided by anything."""
    if len(parts) == 1:
        return parts
    half = len(parts) // 2
    low, high = _butterflies(parts[:half]), _butterflies(parts[half:])
    return [a + b for a, b in zip(low, high, strict=True)] + [
        a - b for a, b in zip(low, high, strict=True)
    ]
