"""The values that a sparsifier sends: how many there are, and their codec."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim.codecs.sizes import VALUE_BITS
from fedsim.tree import Tree
from fedsim.types import Codec, no_row


def number_sent(k: int | None, density: float | None) -> Callable[[int], int]:
    """Return how many of d coordinates are sent, as a function of d.

    They are k or ⌈density · d⌉, and at most all.

    Raises:
      ValueError: unless exactly one of both is given.
    """
    if (k is None) == (density is None):
        raise ValueError("give one of k and density")

    def count(d: int) -> int:
        share = max(math.ceil((density or 0) * d - 1e-9), 1)
        return min(k or share, d)

    return count


def value_codec(values: Codec | None) -> Codec:
    """Return the codec for the values; by default each takes 32 bits.

    Raises:
      ValueError: where it cannot send the values of a message by themselves.
    """
    if values is None:
        return Codec(
            encode=lambda x, memory, key: (x, VALUE_BITS * len(x), memory),
            decode=lambda payload, d: payload,
        )
    reason = None
    if values.linear:
        reason = "its payloads are decoded as a sum, and the indices differ"
    elif values.memory is not no_row:
        reason = "it has a memory, and the indices change from round to round"
    elif values.shaped is not None:
        reason = "it encodes the leaves of a model one by one"
    if reason is not None:
        remedy = "take a codec of vectors, {kind: cast}"
        raise ValueError(f"{values.name} cannot send values: {reason}; {remedy}")
    return values


def entropy_bits(values: Codec, payload: Tree, k: int) -> Float[Array, ""]:
    """Bits of k values in the entropy code of their codec, or as they are sent if it has none."""
    if values.entropy is not None:
        return values.entropy(payload, k)

    # Without an entropy code the bits are a Python integer, which a trace of shapes records here.
    sizes = []

    def encode(x, key):
        payload, bits, _ = values.encode(x, (), key)
        sizes.append(bits)
        return payload

    x = jax.ShapeDtypeStruct((k,), jnp.float32)
    jax.eval_shape(encode, x, jax.eval_shape(jax.random.key, 0))
    return jnp.asarray(float(sizes[0]))


def spread(values: Float[Array, " k"], indices: Int[Array, " k"], d: int) -> Float[Array, " d"]:
    """A vector with the values at their indices, and zeros elsewhere."""
    return jnp.zeros(d, values.dtype).at[indices].set(values)
