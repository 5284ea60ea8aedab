"""Codecs around another codec."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedsim.types import Codec


def with_memory(codec: Codec, around: Callable[[Codec], Codec]) -> Codec:
    """Return `around(codec)`, also for a codec that depends on the shapes of the leaves.

    Raises:
      ValueError: for a linear codec, and for one that repeats what its receiver has, which is not
        part of the message that it gets.
    """
    if codec.linear:
        reason = "so that no client knows what the server received"
        raise ValueError(f"{codec.name} is decoded after the rule, {reason}")
    if codec.recursive:
        reason = "remembers what was received, and needs no memory around it"
        raise ValueError(f"{codec.name} {reason}; take it alone")

    wrapped = around(codec)
    shaped = codec.shaped
    if shaped is None:
        return wrapped
    return wrapped._replace(shaped=lambda shapes: around(shaped(shapes)))


def shifted(codec: Codec, alpha: float = 1.0) -> Codec:
    """Send differences from a shift h that sender and receiver store.

    h + C(x − h) arrives, and h ← h + α C(x − h).
    """

    def memory(known):
        return {"shift": known, "codec": codec.memory(jnp.zeros_like(known))}

    # The barrier rounds a difference as it is sent: it is not fused into the sum.
    rounded = jax.lax.optimization_barrier

    def encode(x, memory, key):
        shift = memory["shift"]
        payload, bits, inner = codec.encode(x - shift, memory["codec"], key)
        step = rounded(codec.decode(payload, len(x)).astype(x.dtype))
        if alpha != 1:
            step = rounded(alpha * step)
        return (shift, payload), bits, {"shift": rounded(shift + step), "codec": inner}

    def decode(payload, d):
        shift, difference = payload
        return shift + rounded(codec.decode(difference, d).astype(shift.dtype))

    def entropy(payload, d):
        assert codec.entropy is not None
        return codec.entropy(payload[1], d)

    return codec._replace(
        encode=encode,
        decode=decode,
        memory=memory,
        recursive=True,
        entropy=None if codec.entropy is None else entropy,
    )
