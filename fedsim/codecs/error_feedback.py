"""Error feedback: what a codec leaves out of a message is added to the next one."""

import jax
import jax.numpy as jnp

from fedsim.codecs.inner import with_memory
from fedsim.compose import codec as as_codec
from fedsim.types import Codec


@as_codec
def error_feedback(codec: Codec) -> Codec:
    """Every client stores what the codec left out of its message, and adds it to the next one.

    p = Δ_i + e_i;  sent: C(p);  e_i ← p − C(p), with e_i = 0 at the start; if a message does not
    arrive, e_i does not change. It is for updates: the part missing from a model does not belong
    to the next model, so use `ef21` in a broadcast.

    Bits: those of the codec.    Cost: a vector of d numbers for every client that ever takes part.

    Args:
      codec: C, any codec that is not linear, `{kind: top_k, k: 100}`.

    References:
      Karimireddy, Rebjock, Stich, Jaggi 2019, Error Feedback Fixes SignSGD and other Gradient
      Compression Schemes, arXiv:1901.09847, Algorithm 2; there for gradients, here for a round's
      update, as Algorithm 1 of Basu et al. 2019, Qsparse-local-SGD, arXiv:1906.02367.
    """
    return with_memory(codec, _feedback)


def _feedback(codec: Codec) -> Codec:
    def memory(known):
        return {"error": jnp.zeros_like(known), "codec": codec.memory(jnp.zeros_like(known))}

    def encode(x, memory, key):
        corrected = x + memory["error"]
        payload, bits, inner = codec.encode(corrected, memory["codec"], key)

        # The barrier rounds the vector as it is sent: it is not fused into the difference.
        received = codec.decode(payload, len(x)).astype(x.dtype)
        received = jax.lax.optimization_barrier(received)
        return payload, bits, {"error": corrected - received, "codec": inner}

    return codec._replace(encode=encode, memory=memory)
