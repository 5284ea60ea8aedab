"""The largest coordinates of a message."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from fedsim.codecs.sizes import index_bits
from fedsim.compose import codec
from fedsim.types import Codec


@codec
def top_k(k: Annotated[int, Ge(1)] | None = None, density: Annotated[float, Gt(0), Le(1)] | None = None) -> Codec:
    """Sends the k coordinates that are largest in absolute value, with their places; the others are 0.

    C(x)_j = x_j for the k largest |x_j|, of equal ones those of the lowest j, else 0.
    ‖C(x) − x‖² ≤ (1 − k/d) ‖x‖².

    Bits: k (32 + ⌈log₂ d⌉).    Biased: for the optimum of heterogeneous clients put it under `error_feedback`.
    Cost: O(d log k) per client.

    Args:
      k: coordinates that are sent, all of them if there are fewer.
      density: share of the coordinates instead, of d coordinates ⌈density · d⌉.

    References:
      Stich, Cordonnier, Jaggi 2018, Sparsified SGD with Memory, arXiv:1809.07599.
    """
    if (k is None) == (density is None):
        raise ValueError("give one of k and density")

    def kept(d: int) -> int:
        return min(k or math.ceil((density or 0) * d - 1e-9), d)

    def encode(x, memory, key):
        del key
        d = len(x)
        _, places = jax.lax.top_k(jnp.abs(x), kept(d))
        return (x[places], places), kept(d) * (32 + index_bits(d)), memory

    def decode(payload, d):
        values, places = payload
        return jnp.zeros(d, values.dtype).at[places].set(values)

    return Codec(encode, decode)
