"""QSGD: coordinates rounded at random to levels between 0 and the norm."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Float, Int

from fedsim.codecs.entropy import dense_bits, gaps_bits
from fedsim.codecs.rounding import rounded
from fedsim.codecs.scaling import safe, saturated, unit
from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.tree.draws import uniform
from fedsim.types import Codec


@codec
def qsgd(
    levels: Annotated[int, Ge(1), Le(2**16)] = 7,
    bucket: Annotated[int, Ge(1)] | None = None,
    entropy: bool = False,
) -> Codec:
    """Sends the norm, and of every coordinate its sign and one of s levels, rounded unbiasedly.

    C(x)_j = ‖x‖ sign(x_j) ζ_j / s,  ζ_j = ⌊t⌋ + 1 with probability t − ⌊t⌋, else ⌊t⌋,
    t = s |x_j| / ‖x‖.
    E C(x) = x;  E ‖C(x) − x‖² = (‖x‖ / s)² Σ_j r_j (1 − r_j) ≤ min(d / s², √d / s) ‖x‖²,
    r_j = t − ⌊t⌋.

    Bits: 32 + d ⌈log₂(2 s + 1)⌉; with buckets 32 ⌈d / bucket⌉ + the same.
    Unbiased.
    Cost: O(d).

    Args:
      levels: s; 1 is ternary, 7 takes 4 bits for a coordinate.
      bucket: coordinates that share a norm, the last ones fewer; all of them if left out.
      entropy: reports `qsgd/entropy_bytes`, a message in the paper's Elias ω codes instead: norms,
        and of the levels that are not 0 their distance, sign and level; if s² + √d > d / 2, all
        levels + 1 and the signs of those that are not 0.

    References:
      Alistarh, Grubic, Li, Tomioka, Vojnovic 2017, QSGD: Communication-Efficient SGD via Gradient
      Quantization and Encoding, arXiv:1610.02132, Theorem 3.2 and section 4 (buckets).
    """

    def encode(x, memory, key):
        d = len(x)
        size = min(bucket or d, d)
        u = uniform(key, d, x.dtype)
        split = lambda row: jnp.pad(row, (0, -d % size)).reshape(-1, size)
        norms, codes = jax.vmap(lambda x, u: quantised(x, u, levels))(split(x), split(u))
        bits = VALUE_BITS * len(norms) + d * (2 * levels).bit_length()
        return (norms, codes.reshape(-1)[:d]), bits, memory

    def decode(payload, d):
        norms, codes = payload
        size = min(bucket or d, d)
        norm = jnp.broadcast_to(norms[:, None], (len(norms), size)).reshape(-1)[:d]
        return saturated(norm * (codes.astype(norms.dtype) / levels))

    def coded(payload, d):
        norms, codes = payload
        length = dense_bits if 2 * (levels**2 + d**0.5) > d else gaps_bits
        return VALUE_BITS * len(norms) + length(codes).astype(float)

    return Codec(encode, decode, entropy=coded if entropy else None)


def quantised(
    x: Float[Array, " d"], u: Float[Array, " d"], levels: int
) -> tuple[Float[Array, ""], Int[Array, " d"]]:
    """Return the norm and the signed levels of a vector; up where u is below the fraction."""
    z, scale = unit(x)
    norm = jnp.sqrt(jnp.sum(z * z))
    level = jnp.minimum(rounded(levels * (jnp.abs(z) / safe(norm)), u), levels)
    return saturated(norm * scale), jnp.where(x < 0, -level, level)
