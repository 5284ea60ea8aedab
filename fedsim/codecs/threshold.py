"""The coordinates of a message beyond a threshold."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.codecs.sizes import VALUE_BITS, index_bits, size, subset_bits_of
from fedsim.compose import codec
from fedsim.types import Codec


class Beyond(NamedTuple):
    """The coordinates that are sent, zeros elsewhere, and how many are sent."""

    values: Float[Array, " d"]
    count: Int[Array, ""]


@codec
def threshold(value: Annotated[float, Ge(0)], entropy: bool = False) -> Codec:
    """Sends the coordinates whose absolute value reaches a threshold; the others are 0.

    C(x)_j = x_j where |x_j| ≥ λ, else 0. ‖C(x) − x‖² < d λ², whatever x is: an absolute compressor,
    not a contraction.

    Bits: 32 + n (32 + ⌈log₂ d⌉) for the n coordinates that are sent: their number, values and
    indices.
    Cost: O(d) per client.

    Args:
      value: λ, in units of the update; 0 sends all coordinates, zeros as well.
      entropy: report the bits of an enumerative code of the indices, ⌈log₂ C(d, n)⌉ instead of
        n ⌈log₂ d⌉; from Stirling's series, to one bit and 10⁻⁶ of it.

    References:
      Strom 2015, Scalable Distributed DNN Training Using Commodity GPU Cloud Computing (there every
      value is sent as ±λ); Sahu, Dutta, Abdelmoniem, Banerjee, Canini, Kalnis 2021, Rethinking
      Gradient Sparsification as Total Error Minimization, arXiv:2108.00951, under error feedback.
    """

    def encode(x, memory, key):
        del key
        sent = jnp.abs(x) >= value
        count = tree.count(sent)
        bits = size(count, bits_of_one(len(x)), VALUE_BITS)
        return Beyond(jnp.where(sent, x, 0), count), bits, memory

    def decode(payload, d):
        del d
        return payload.values

    def coded(payload, d):
        value_bits = VALUE_BITS * payload.count.astype(jnp.float32)
        bits_of_indices = jnp.ceil(subset_bits_of(d, payload.count))
        return VALUE_BITS + value_bits + bits_of_indices

    def bits_of_one(d: int) -> int:
        return VALUE_BITS + index_bits(d)

    return Codec(
        encode,
        decode,
        most=lambda d: VALUE_BITS + d * bits_of_one(d),
        entropy=coded if entropy else None,
    )
