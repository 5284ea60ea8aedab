"""The coordinates of a message beyond a threshold."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float, Int

from fedsim.codecs.sizes import VALUE_BITS, index_bits, size, subset_bits_of
from fedsim.compose import codec
from fedsim.types import Codec


class Beyond(NamedTuple):
    """The coordinates that are sent, zeros elsewhere, and the number of those sent."""

    values: Float[Array, " d"]
    count: Int[Array, ""]


@codec
def threshold(value: Annotated[float, Ge(0)], entropy: bool = False) -> Codec:
    """Sends the coordinates with |x_j| of at least λ, with their indices; the others are 0.

    C(x)_j = x_j where |x_j| ≥ λ, else 0. ‖C(x) − x‖² < d λ², whatever x is: an absolute compressor,
    and no contraction.

    Bits: 32 + n (32 + ⌈log₂ d⌉) of the n coordinates that are sent: their number, values and
    places.
    Cost: O(d) per client.

    Args:
      value: λ, in units of the update; 0 sends all coordinates, zeros as well.
      entropy: report the bits of an enumerative code of the places, ⌈log₂ C(d, n)⌉ for n ⌈log₂ d⌉;
        from Stirling's series, to one bit and 10⁻⁶ of it.

    References:
      Strom 2015, Scalable Distributed DNN Training Using Commodity GPU Cloud Computing (there every
      value is sent as ±λ); Sahu, Dutta, Abdelmoniem, Banerjee, Canini, Kalnis 2021, Rethinking
      Gradient Sparsification as Total Error Minimization, arXiv:2108.00951, under error feedback.
    """

    def encode(x, memory, key):
        del key
        sent = jnp.abs(x) >= value
        count = sent.sum(dtype=jnp.int32)
        return Beyond(jnp.where(sent, x, 0), count), size(count, each(len(x)), VALUE_BITS), memory

    def decode(payload, d):
        del d
        return payload.values

    def coded(payload, d):
        return (
            VALUE_BITS
            + VALUE_BITS * payload.count.astype(jnp.float32)
            + jnp.ceil(subset_bits_of(d, payload.count))
        )

    def each(d: int) -> int:
        return VALUE_BITS + index_bits(d)

    return Codec(
        encode, decode, most=lambda d: VALUE_BITS + d * each(d), entropy=coded if entropy else None
    )
