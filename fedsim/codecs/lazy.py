"""Messages that are sent with a probability."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Gt, Le
from jaxtyping import Array, Bool, Float

from fedsim.codecs.sizes import VALUE_BITS, size
from fedsim.compose import codec
from fedsim.types import Codec


class Lazy(NamedTuple):
    """Whether a vector was sent, and what its receiver has now."""

    sends: Bool[Array, ""]
    received: Float[Array, " d"]


@codec
def lazy(probability: Annotated[float, Gt(0), Le(1)]) -> Codec:
    """Sends the full vector with a probability p, else one bit, and the receiver reuses the last.

    g_i ← x_i with probability p, else g_i does not change, and g_i is what arrives: zeros until the
    first vector of a client, in a broadcast the start model. If a message does not arrive, g_i does
    not change. E‖C(x) − x‖² = (1 − p) ‖g_i − x‖². It is EF21 with the codec that sends the full
    difference with probability p, else nothing.

    Bits: 32 d + 1 when it sends, else 1.
    Cost: a vector of d numbers for every client that ever takes part; one in a broadcast.

    Args:
      probability: p, independent for each message.

    References:
      Islamov, Qian, Hanzely, Safaryan, Richtárik 2022, Distributed Newton-Type Methods with
      Communication Compression and Bernoulli Aggregation, arXiv:2206.03588 (there for Hessians), a
      three point compressor of Richtárik et al. 2022, 3PC, arXiv:2202.00998. Here lazy aggregation
      is random; LAG (Chen et al. 2018, arXiv:1805.09965) sends where x has changed enough. There is
      no scaling by 1/p: unlike the unbiased codec that sends x/p or zeros, it repeats.
    """

    def memory(known):
        return {"received": known}

    def encode(x, memory, key):
        # In float32 the draw is the same whatever the dtype of x.
        sends = jax.random.uniform(key, (), jnp.float32) < probability
        payload = step(x, memory["received"], sends)
        bits = size(sends.astype(jnp.int32), VALUE_BITS * len(x), 1)
        return payload, bits, {"received": payload.received}

    def decode(payload, d):
        del d
        return payload.received

    return Codec(encode, decode, memory, most=lambda d: VALUE_BITS * d + 1, recursive=True)


def step(x: Float[Array, " d"], received: Float[Array, " d"], sends: Bool[Array, ""]) -> Lazy:
    """Return what the receiver has after a message."""
    return Lazy(sends, jnp.where(sends, x, received))
