"""Coordinates rounded at random to equidistant values between the smallest and the largest."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Float, Int

from fedsim.codecs import hadamard
from fedsim.codecs.entropy import arithmetic_bits
from fedsim.codecs.rounding import rounded
from fedsim.codecs.scaling import safe, saturated, unit
from fedsim.codecs.sizes import VALUE_BITS, index_bits
from fedsim.compose import codec
from fedsim.tree.draws import uniform
from fedsim.types import Codec


@codec
def stochastic_quantise(
    levels: Annotated[int, Ge(2), Le(2**16)] = 16, rotate: bool = False, entropy: bool = False
) -> Codec:
    """Sends the range of the coordinates, and for each one of k values in it, rounded unbiasedly.

    C(x)_j = min x + ζ_j step,  step = (max x − min x) / (k − 1),
    ζ_j = ⌊t⌋ + 1 with probability t − ⌊t⌋, else ⌊t⌋,  t = (x_j − min x) / step.
    E C(x) = x;  E ‖C(x) − x‖² = step² Σ_j r_j (1 − r_j) ≤ d ‖x‖² / (2 (k − 1)²),  r_j = t − ⌊t⌋.

    Bits: d ⌈log₂ k⌉ + 64; rotated n ⌈log₂ k⌉ + 64, with n the next power of two.
    Unbiased.
    Cost: O(d), rotated O(d log d).

    Args:
      levels: k; 16 takes 4 bits for a coordinate.
      rotate: a randomised Hadamard rotation before, and its inverse behind: the range shrinks to
        O(‖x‖ √(log d / d)). The seed of its signs follows from round and client, which the server
        knows: it takes no bits.
      entropy: reports `stochastic_quantise/entropy_bytes`: levels in arithmetic code behind their
        histogram, as in section 4 of the paper, instead of ⌈log₂ k⌉ bits each.

    References:
      Suresh, Yu, Kumar, McMahan 2017, Distributed Mean Estimation with Limited Communication,
      arXiv:1611.00429.
    """

    def encode(x, memory, key):
        d = len(x)
        n = hadamard.padded(d) if rotate else d
        z, scale = unit(x)
        if rotate:
            z = hadamard.rotate(z, hadamard.signs(key, n))
        u = uniform(jax.random.fold_in(key, 1), n, x.dtype)
        low, high, codes = quantised(z, u, levels)
        payload = saturated(low * scale), saturated(high * scale), codes, key
        return payload, 2 * VALUE_BITS + n * index_bits(levels), memory

    def decode(payload, d):
        low, high, codes, key = payload
        y = values(low, high, codes, levels)
        if not rotate:
            return y
        z, scale = unit(y)
        return saturated(hadamard.unrotate(z, hadamard.signs(key, len(z)), d) * scale)

    def coded(payload, d):
        del d
        return 2 * VALUE_BITS + arithmetic_bits(payload[2], levels)

    return Codec(encode, decode, entropy=coded if entropy else None)


def quantised(
    x: Float[Array, " d"], u: Float[Array, " d"], levels: int
) -> tuple[Float[Array, ""], Float[Array, ""], Int[Array, " d"]]:
    """Return the smallest and the largest value of a vector, and its levels 0 to k − 1.

    A level is rounded up where u is below the fraction.
    """
    low = jnp.min(x)
    high = jnp.max(x)
    t = (x - low) / safe(high - low) * (levels - 1)
    return low, high, jnp.minimum(rounded(t, u), levels - 1)


def values(
    low: Float[Array, ""], high: Float[Array, ""], codes: Int[Array, " d"], levels: int
) -> Float[Array, " d"]:
    """Return the values of the levels.

    A mean of both ends does not overflow, and the last level is exactly the upper end.
    """
    share = codes.astype(low.dtype) / (levels - 1)
    return jnp.where(codes == levels - 1, high, low * (1 - share) + high * share)
