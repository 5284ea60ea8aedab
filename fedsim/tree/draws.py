"""Random numbers with the bits of `jax.random`, in a third of its time on a CPU.

There JAX generates them round by round of Threefry, and every round passes over memory. Here the
rounds are one expression, which XLA computes in the registers, together with what uses the numbers.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, UInt32

from fedsim.machine import platform

# Threefry-2x32 with 20 rounds (Salmon et al. 2011, Parallel Random Numbers: As Easy as 1, 2, 3).
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
GROUPS = 5  # of four rounds each


def bits(key: Key[Array, ""], n: int) -> UInt32[Array, " n"]:
    """`jax.random.bits(key, (n,), "uint32")`, the same bits."""
    is_counted = jax.config.values["jax_threefry_partitionable"] and n < 2**32
    if platform() != "cpu" or not is_counted or str(jax.random.key_impl(key)) != "threefry2x32":
        return jax.random.bits(key, (n,), jnp.uint32)
    words = jax.random.key_data(key)
    low = jnp.arange(n, dtype=jnp.uint32)
    first, second = _threefry(words[0], words[1], jnp.zeros_like(low), low)
    return first ^ second


def uniform(key: Key[Array, ""], n: int, dtype) -> Float[Array, " n"]:
    """`jax.random.uniform(key, (n,), dtype)`: numbers from [0, 1), the same bits."""
    if dtype != jnp.float32:
        return jax.random.uniform(key, (n,), dtype)

    # 23 random bits behind the exponent of 1 make a number from [1, 2).
    exponent_of_one = jnp.uint32(0x3F800000)
    from_one = jax.lax.bitcast_convert_type(bits(key, n) >> 9 | exponent_of_one, jnp.float32)
    return from_one - 1


@functools.partial(jax.jit, static_argnames=("shape", "bound", "dtype"))
def uniform_within(key: Key[Array, ""], shape: tuple[int, ...], bound: float, dtype) -> Array:
    """`jax.random.uniform(key, shape, dtype, -bound, bound)`, the same bits.

    They are drawn in one row: XLA unrolls the loop over a short last axis, such as that of ten
    outputs, with all rounds of Threefry in it, and compiles such a draw four times as long.
    """
    low = jnp.asarray(-bound, dtype)
    width = jnp.asarray(bound, dtype) - low
    drawn = uniform(key, math.prod(shape), dtype) * width + low
    return jnp.maximum(low, drawn).reshape(shape)


def _threefry(
    key_0: UInt32[Array, ""],
    key_1: UInt32[Array, ""],
    x: UInt32[Array, " n"],
    y: UInt32[Array, " n"],
) -> tuple[UInt32[Array, " n"], UInt32[Array, " n"]]:
    """Encrypt counters of two words with a key of two words."""
    keys = (key_0, key_1, key_0 ^ key_1 ^ jnp.uint32(PARITY))
    x = x + keys[0]
    y = y + keys[1]
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ (y << rotation | y >> (32 - rotation))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y
