"""Codecs that are made of another one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedsim.types import Codec


def with_memory(codec: Codec, around: Callable[[Codec], Codec]) -> Codec:
    """`around(codec)`, also for a codec that is made when the shapes of the leaves are known.

    Raises:
      ValueError: for a linear codec, and for one that repeats what its receiver has, which is no
        part of the message that it is given.
    """
    if codec.linear:
        raise ValueError(
            f"{codec.name} is decoded after the rule, so that no client knows "
            "what the server received"
        )
    if codec.recursive:
        raise ValueError(
            f"{codec.name} remembers what was received, and needs no memory around it; use it alone"
        )
    made, inner = around(codec), codec.shaped
    return made if inner is None else made._replace(shaped=lambda shapes: around(inner(shapes)))


def shifted(codec: Codec, alpha: float = 1.0) -> Codec:
    """Differences to a shift h that sender and receiver keep.

    h + C(x − h) arrives, and h ← h + α C(x − h).
    """

    def memory(known):
        return {"shift": known, "codec": codec.memory(jnp.zeros_like(known))}

    rounded = jax.lax.optimization_barrier  # as it is sent, not fused into the sum

    def encode(x, memory, key):
        shift = memory["shift"]
        payload, bits, inner = codec.encode(x - shift, memory["codec"], key)
        step = rounded(codec.decode(payload, len(x)).astype(x.dtype))
        step = step if alpha == 1 else rounded(alpha * step)
        return (shift, payload), bits, {"shift": rounded(shift + step), "codec": inner}

    def decode(payload, d):
        shift, difference = payload
        return shift + rounded(codec.decode(difference, d).astype(shift.dtype))

    def entropy(payload, d):
        assert codec.entropy is not None
        return codec.entropy(payload[1], d)

    made = codec._replace(encode=encode, decode=decode, memory=memory, recursive=True)
    return made._replace(entropy=codec.entropy and entropy)
