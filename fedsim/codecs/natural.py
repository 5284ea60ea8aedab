"""Natural compression: coordinates rounded at random to powers of two."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim.compose import codec
from fedsim.tree.draws import uniform
from fedsim.types import Codec

BITS = 9  # a sign, and the eight of an exponent of float32
MIN_EXPONENT = -126
MAX_EXPONENT = 127


@codec
def natural() -> Codec:
    """Sends the sign of every coordinate and a power of two next to it, unbiased.

    C(x)_j = sign(x_j) 2^(a + b),  a = ⌊log₂ |x_j|⌋,
    b = 1 with probability |x_j| / 2^a − 1, else 0;  C(0) = 0.
    E C(x) = x;  E ‖C(x) − x‖² = Σ_j (|x_j| − 2^a) (2^(a+1) − |x_j|) ≤ ‖x‖² / 8.

    Bits: 9 d: the exponents −126 to 127 of float32, whatever the simulator's float type, and 0.
    Unbiased except at the ends: below 2⁻¹²⁶ (denormals of float32) a coordinate becomes 0, above
    2¹²⁷ it becomes ± 2¹²⁷.
    Cost: O(d).

    References:
      Horváth, Ho, Horváth, Sahu, Canini, Richtárik 2019, Natural Compression for Distributed Deep
      Learning, arXiv:1905.10988.
    """

    def encode(x, memory, key):
        u = uniform(key, len(x), x.dtype)
        return to_powers_of_two(x, u), BITS * len(x), memory

    def decode(payload, d):
        del d
        return payload

    return Codec(encode, decode)


def to_powers_of_two(x: Float[Array, " d"], u: Float[Array, " d"]) -> Float[Array, " d"]:
    """Round to powers of two: up where u is below |x| / 2^a − 1."""
    size = jnp.abs(x)
    fraction, exponent = jnp.frexp(size)  # the fraction is in [1/2, 1), so that a = exponent − 1
    rounded = exponent - 1 + (u < 2 * fraction - 1)
    power = jnp.ldexp(jnp.ones_like(x), jnp.clip(rounded, MIN_EXPONENT, MAX_EXPONENT))
    return jnp.sign(x) * jnp.where(size < 2.0**MIN_EXPONENT, 0, power)
