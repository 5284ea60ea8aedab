"""TernGrad: coordinates rounded at random to three values."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim.codecs.entropy import arithmetic_bits
from fedsim.codecs.scaling import safe, unit
from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.tree.draws import uniform
from fedsim.types import Codec


@codec
def terngrad(entropy: bool = False) -> Codec:
    """Sends the largest absolute value, and −1, 0 or 1 for every coordinate, unbiased.

    C(x)_j = s sign(x_j) b_j,  s = max_j |x_j|,  b_j = 1 with probability |x_j| / s, else 0.
    E C(x) = x;  E ‖C(x) − x‖² = Σ_j |x_j| (s − |x_j|).

    Bits: 2 d + 32.
    Unbiased.
    Cost: O(d).
    The whole message has a single scale and is not clipped; the paper has a scale for each layer,
    and clips at 2.5 standard deviations.

    Args:
      entropy: reports `terngrad/entropy_bytes`: the three values in arithmetic code behind their
        histogram, at most d log₂ 3 + 32 bits and those of the histogram.

    References:
      Wen, Xu, Yan, Wu, Wang, Chen, Li 2017, TernGrad: Ternary Gradients to Reduce Communication in
      Distributed Deep Learning, arXiv:1705.07878.
    """

    def encode(x, memory, key):
        u = uniform(key, len(x), x.dtype)
        return ternary(x, u), VALUE_BITS + 2 * len(x), memory

    def decode(payload, d):
        del d
        scale, values = payload
        return scale * values.astype(scale.dtype)

    def coded(payload, d):
        del d
        return VALUE_BITS + arithmetic_bits(payload[1] + 1, 3)

    return Codec(encode, decode, entropy=coded if entropy else None)


def ternary(
    x: Float[Array, " d"], u: Float[Array, " d"]
) -> tuple[Float[Array, ""], Int[Array, " d"]]:
    """Return the scale and the values of a vector, which are not 0 where u is below |x| / s."""
    z, unit_scale = unit(x)
    size = jnp.abs(z)
    scale = jnp.max(size)
    magnitude = (u < size / safe(scale)).astype(jnp.int32)
    return scale * unit_scale, jnp.where(x < 0, -magnitude, magnitude)
