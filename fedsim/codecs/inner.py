"""Codecs that are made of another one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedsim.types import Codec


def with_memory(codec: Codec, around: Callable[[Codec], Codec]) -> Codec:
    """`around(codec)`, also where the codec is made for the shapes of the leaves when these are known."""
    made, inner = around(codec), codec.shaped
    return made if inner is None else made._replace(shaped=lambda shapes: around(inner(shapes)))


def shifted(codec: Codec, alpha: float = 1.0) -> Codec:
    """Differences to a shift h that sender and receiver keep: h + C(x − h) arrives, and h ← h + α C(x − h)."""

    def memory(known):
        return {"shift": known, "codec": codec.memory(jnp.zeros_like(known))}

    def encode(x, memory, key):
        shift = memory["shift"]
        payload, bits, inner = codec.encode(x - shift, memory["codec"], key)
        step = codec.decode(payload, len(x)).astype(x.dtype)
        if alpha != 1:
            step = jax.lax.optimization_barrier(alpha * step)  # one product, rounded before it is added
        return (shift, payload), bits, {"shift": jax.lax.optimization_barrier(shift + step), "codec": inner}

    def decode(payload, d):
        shift, difference = payload
        return shift + codec.decode(difference, d).astype(shift.dtype)

    def entropy(payload, d):
        assert codec.entropy is not None
        return codec.entropy(payload[1], d)

    made = codec._replace(encode=encode, decode=decode, memory=memory, recursive=True)
    return made._replace(entropy=codec.entropy and entropy)
