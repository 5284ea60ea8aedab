"""DRIVE: one bit for each coordinate of a rotated vector."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim.codecs.hadamard import padded, rotate, signs, unrotate
from fedsim.codecs.scaling import safe, saturated, unit
from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.types import Codec


@codec
def drive(biased: bool = False) -> Codec:
    """Sends the signs of the randomly rotated vector, and a scale; the receiver rotates back.

    C(x) = Rᵀ (S sign(R x)), with a randomised Hadamard rotation R of x padded with zeros to n
    coordinates.
    S = ‖R x‖² / ‖R x‖₁ for many clients, whose errors average out; S = ‖R x‖₁ / n for the least
    error of a single message. If R is uniformly random, E C(x) = x and
    E ‖C(x) − x‖² / ‖x‖² → π/2 − 1 = 0.571 with the first, and = (1 − 2/π)(1 − 1/n) with the second;
    a Hadamard rotation comes near both, except for vectors with few coordinates that are not 0.

    Bits: n + 32, with n the next power of two. The seed of the signs in R follows from round and
    client, which the server knows: it takes no bits.
    Cost: O(d log d).

    Args:
      biased: the scale of least error, for `error_feedback` and `ef21`.

    References:
      Vargaftik, Ben-Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher 2021, DRIVE: One-bit
      Distributed Mean Estimation, arXiv:2105.08339.
    """

    def encode(x, memory, key):
        n = padded(len(x))
        scale, positive = one_bit(x, signs(key, n), biased)
        return (scale, positive, key), n + VALUE_BITS, memory

    def decode(payload, d):
        scale, positive, key = payload
        return restored(scale, positive, signs(key, len(positive)), d)

    return Codec(encode, decode)


def one_bit(
    x: Float[Array, " d"], signs: Float[Array, " n"], biased: bool
) -> tuple[Float[Array, ""], Bool[Array, " n"]]:
    """Return S, and where the rotated vector is not negative."""
    z, unit_scale = unit(x)
    y = rotate(z, signs)
    sum_of_sizes = jnp.sum(jnp.abs(y))
    scale = sum_of_sizes / len(y) if biased else jnp.sum(y * y) / safe(sum_of_sizes)
    return saturated(scale * unit_scale), y >= 0


def restored(
    scale: Float[Array, ""], positive: Bool[Array, " n"], signs: Float[Array, " n"], d: int
) -> Float[Array, " d"]:
    """The vector that a receiver decodes."""
    rotated = jnp.where(positive, 1, -1).astype(scale.dtype)
    return saturated(scale * unrotate(rotated, signs, d))
