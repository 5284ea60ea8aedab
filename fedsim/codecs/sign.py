"""Signs of coordinates, and their mean absolute value."""

import jax.numpy as jnp

from fedsim.codecs.scaling import unit
from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.types import Codec


@codec
def sign(scale: bool = True) -> Codec:
    """Sends the signs of the coordinates, and the mean of their absolute values.

    C(x) = ‖x‖₁ / d · sign(x), with sign(0) = 0 as in the paper.
    ‖C(x) − x‖² ≤ (1 − ‖x‖₁² / (d ‖x‖²)) ‖x‖², with equality where no coordinate is 0.

    Bits: d + 32, also for coordinates that are 0, which a single bit cannot express; without scale
    d.
    Biased: put it under `error_feedback`.
    Cost: O(d).

    Args:
      scale: without it only the signs arrive, ±1, as one bit can express: sign(0) = 1, also for a
        message of zeros.

    References:
      Karimireddy, Rebjock, Stich, Jaggi 2019, Error Feedback Fixes SignSGD, arXiv:1901.09847; signs
      alone: Bernstein, Wang, Azizzadenesheli, Anandkumar 2018, signSGD, arXiv:1802.04434.
    """

    def encode(x, memory, key):
        del key
        if not scale:
            return jnp.where(x >= 0, 1, -1).astype(x.dtype), len(x), memory
        z, c = unit(x)
        return jnp.mean(jnp.abs(z)) * c * jnp.sign(x), len(x) + VALUE_BITS, memory

    def decode(payload, d):
        del d
        return payload

    return Codec(encode, decode)
