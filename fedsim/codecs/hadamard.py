"""The randomised Hadamard rotation: spreads large values over all coordinates in O(n log n)."""

import math

import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float, Key

from fedsim.machine import platform
from fedsim.tree import draws

WORD = 32


def padded(d: int) -> int:
    """The next power of two: the length of a rotated vector.

    >>> [padded(d) for d in (1, 2, 3, 1000, 1024, 1025)]
    [1, 2, 4, 1024, 1024, 2048]
    """
    return 1 << max(d - 1, 0).bit_length()


def signs(key: Key[Array, ""], n: int) -> Float[Array, " n"]:
    """±1 at random, from one bit each."""
    words = draws.bits(key, -(-n // WORD))
    bits = [(words >> i) & 1 for i in range(WORD)]
    return jnp.concatenate([1 - 2 * bit.astype(jnp.float32) for bit in bits])[:n]


def rotate(x: Float[Array, " d"], signs: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return H D x / √n, with the signs on the diagonal of D and x padded with zeros.

    ‖·‖ does not change.
    """
    signed = signs.astype(x.dtype)[: len(x)] * x
    return transform(jnp.pad(signed, (0, len(signs) - len(x))))


def unrotate(y: Float[Array, " n"], signs: Float[Array, " n"], d: int) -> Float[Array, " d"]:
    """Undo `rotate`: D H y / √n without the padding, `[d]`."""
    return (signs.astype(y.dtype) * transform(y))[:d]


def transform(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """The Walsh–Hadamard transform H x / √n, its own inverse; n is a power of two."""
    if platform() != "cpu":
        return _transform(x)
    # Of several lanes one after another: a single vector stays in the cache from pass to pass.
    return sequential_vmap(_transform)(x)


def _transform(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """`transform` of one vector.

    Sums and differences of coordinates at a stride, three strides in one pass over memory, in the
    same order whatever else is computed.
    """
    n = stride = len(x)
    while stride > 1:
        radix = min(8, stride)
        stride //= radix
        groups = x.reshape(-1, radix, stride)
        x = jnp.stack(_butterflies([groups[:, i] for i in range(radix)]), axis=1).reshape(n)
    return x / math.sqrt(n)


def _butterflies(arrays: list[Array]) -> list[Array]:
    """The transform H across a list of arrays, without a factor."""
    if len(arrays) == 1:
        return arrays
    half = len(arrays) // 2
    low = _butterflies(arrays[:half])
    high = _butterflies(arrays[half:])
    sums = [a + b for a, b in zip(low, high, strict=True)]
    differences = [a - b for a, b in zip(low, high, strict=True)]
    return sums + differences
