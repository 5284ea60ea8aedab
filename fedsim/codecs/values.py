"""The values that a sparsifier keeps: how many there are, and the codec that they are sent by."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim.codecs.sizes import VALUE_BITS
from fedsim.tree import Tree
from fedsim.types import Codec, no_row


def number_kept(k: int | None, density: float | None) -> Callable[[int], int]:
    """The number of coordinates sent, as a function of d: k or ⌈density · d⌉, at most d.

    Raises:
      ValueError: where not one of both is given.
    """
    if (k is None) == (density is None):
        raise ValueError("give one of k and density")
    return lambda d: min(k or max(math.ceil((density or 0) * d - 1e-9), 1), d)


def sent_by(values: Codec | None) -> Codec:
    """The codec for the values, without one 32 bits each.

    Raises:
      ValueError: where it cannot send a vector of a message of its own.
    """
    if values is None:
        return Codec(
            lambda x, memory, key: (x, VALUE_BITS * len(x), memory), lambda payload, d: payload
        )
    reasons = {
        "its payloads are decoded as a sum, and the places differ": values.linear,
        "it has a memory, and the places change from round to round": values.memory is not no_row,
        "it encodes the leaves of a model one by one": values.shaped is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ValueError(
                f"{values.name} cannot send values: {reason}; "
                "use a codec of vectors, {kind: cast}"
            )
    return values


def entropy_bits(values: Codec, payload: Tree, k: int) -> Float[Array, ""]:
    """Bits of k values in the entropy code of their codec; if it has none, as they are sent."""
    if values.entropy is not None:
        return values.entropy(payload, k)
    known = []

    def encode(x, key):
        payload, bits, _ = values.encode(x, (), key)
        known.append(bits)
        return payload

    jax.eval_shape(
        encode, jax.ShapeDtypeStruct((k,), jnp.float32), jax.eval_shape(jax.random.key, 0)
    )
    return jnp.asarray(float(known[0]))


def spread(values: Float[Array, " k"], places: Int[Array, " k"], d: int) -> Float[Array, " d"]:
    """A vector with the values at their places, and zeros elsewhere."""
    return jnp.zeros(d, values.dtype).at[places].set(values)
