"""EDEN: a few bits for each coordinate of a rotated vector."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Float, Int

from fedsim.codecs.hadamard import padded, rotate, signs, unrotate
from fedsim.codecs.lloyd_max import centroids, thresholds
from fedsim.codecs.scaling import safe, saturated, unit
from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.types import Codec


@codec
def eden(bits: Annotated[int, Ge(1), Le(6)] = 4) -> Codec:
    """Sends the randomly rotated vector in the best values for normal numbers, and a scale.

    C(x) = Rᵀ (S q), with a randomised Hadamard rotation R of x padded with zeros to n coordinates,
    q_j the Lloyd–Max value nearest to √n (R x)_j / ‖x‖, and S = ‖x‖² / ⟨R x, q⟩. If R is uniformly
    random, E C(x) = x; a Hadamard rotation comes near it, except for vectors with few coordinates
    that are not 0.
    E ‖C(x) − x‖² / ‖x‖² → 0.57080, 0.13312, 0.03578, 0.00959, 0.00251, 0.00064 for 1 to 6 bits.

    Bits: n bits + 32, with n the next power of two. The seed of the signs in R follows from round
    and client, which the server knows: it takes no bits.
    Cost: O(d log d + d 2^bits).

    Args:
      bits: b, the bits of a coordinate; 1 is `drive`.

    References:
      Vargaftik, Ben-Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher 2022, EDEN:
      Communication-Efficient and Robust Distributed Mean Estimation for Federated Learning,
      arXiv:2108.08842.
    """

    def encode(x, memory, key):
        n = padded(len(x))
        scale, levels = nearest(x, signs(key, n), bits)
        return (scale, levels, key), n * bits + VALUE_BITS, memory

    def decode(payload, d):
        scale, levels, key = payload
        return restored(scale, levels, signs(key, len(levels)), bits, d)

    return Codec(encode, decode)


def nearest(
    x: Float[Array, " d"], signs: Float[Array, " n"], bits: int
) -> tuple[Float[Array, ""], Int[Array, " n"]]:
    """Return S, and the index of the value nearest to each rotated coordinate."""
    z, unit_scale = unit(x)
    y = rotate(z, signs)
    square = jnp.sum(y * y)
    normal = y * (jnp.sqrt(len(y) / safe(square)))
    levels = jnp.zeros(len(y), jnp.int32)
    for threshold in thresholds(bits):
        levels += normal >= threshold
    scale = square / safe(jnp.sum(y * _values(levels, bits, x.dtype)))
    return saturated(scale * unit_scale), levels


def restored(
    scale: Float[Array, ""], levels: Int[Array, " n"], signs: Float[Array, " n"], bits: int, d: int
) -> Float[Array, " d"]:
    """The vector that a receiver decodes."""
    return saturated(scale * unrotate(_values(levels, bits, scale.dtype), signs, d))


def _values(levels: Int[Array, " n"], bits: int, dtype) -> Float[Array, " n"]:
    """The values at these levels, by comparisons: XLA is 15 times slower to look them up."""
    least, *larger = centroids(bits)
    values = jnp.full(levels.shape, least, dtype)
    for i, value in enumerate(larger, 1):
        values = jnp.where(levels >= i, jnp.asarray(value, dtype), values)
    return values
