"""Coordinates of a message at random places."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jaxtyping import Array, Float, Int, Key

from fedsim.codecs.selection import largest
from fedsim.codecs.sizes import SEED_BITS, plus
from fedsim.codecs.top_k import Kept
from fedsim.codecs.values import entropy_bits, number_kept, sent_by, spread
from fedsim.compose import codec
from fedsim.types import Codec


@codec
def rand_k(
    k: Annotated[int, Ge(1)] | None = None,
    density: Annotated[float, Gt(0), Le(1)] | None = None,
    values: Codec | None = None,
    scale: bool = True,
) -> Codec:
    """Sends k coordinates drawn uniformly without replacement, scaled by d/k; the others are 0.

    C(x)_j = (d/k) x_j for the k places drawn, else 0. E C(x) = x and E‖C(x) − x‖² = (d/k − 1) ‖x‖².
    Without `scale` C(x)_j = x_j there: E C(x) = (k/d) x and E‖C(x) − x‖² = (1 − k/d) ‖x‖².

    Bits: 32 k + 32, with a seed of 32 bits in place of the places; with `values` its bits for k
    numbers, and 32.
    Cost: d random numbers and the k largest of them, see `top_k`. A coordinate that is infinite
    once scaled makes its message one that is dropped.

    Under `error_feedback` and in `ef21` take `scale: false`. They need a contraction, and the
    scaled codec is none for d/k ≥ 2: where a coordinate is sent, its error is (1 − d/k) times what
    it was.

    Args:
      k: coordinates that are sent, all of them if there are fewer.
      density: share of the coordinates instead, of d coordinates ⌈density · d⌉.
      values: a codec for the values, `{kind: cast}`; none that is linear, remembers, or encodes
        leaf by leaf.
      scale: by d/k, which makes it unbiased.

    References:
      Konečný et al. 2016, Federated Learning: Strategies for Improving Communication Efficiency,
      arXiv:1610.05492 (random mask, its seed); unscaled, under error feedback: Stich, Cordonnier,
      Jaggi 2018, Sparsified SGD with Memory, arXiv:1809.07599; contractions and scaling: Beznosikov
      et al. 2020, On Biased Compression for Distributed Learning, arXiv:2002.12410.
    """
    kept, carrier = number_kept(k, density), sent_by(values)

    def encode(x, memory, key):
        places = drawn(len(x), kept(len(x)), jax.random.fold_in(key, 0))
        payload, bits, _ = carrier.encode(x[places], (), jax.random.fold_in(key, 1))
        return Kept(payload, places), plus(bits, SEED_BITS), memory

    def decode(payload, d):
        values = carrier.decode(payload.values, kept(d))
        values = values.astype(
            jnp.promote_types(values.dtype, jnp.float32)
        )  # d/k would be rounded to a shorter type
        return spread(values * (d / kept(d)) if scale else values, payload.places, d)

    def coded(payload, d):
        return SEED_BITS + entropy_bits(carrier, payload.values, kept(d))

    made = Codec(encode, decode, entropy=coded if carrier.entropy else None)
    most = carrier.most
    return made if most is None else made._replace(most=lambda d: most(kept(d)) + SEED_BITS)


def drawn(d: int, k: int, key: Key[Array, ""]) -> Int[Array, " k"]:
    """Draw k of d places: those of the largest of d random numbers of 30 bits."""
    return largest(_positive(jax.random.bits(key, (d,), jnp.uint32)), k)


def _positive(bits: Int[Array, " d"]) -> Float[Array, " d"]:
    """Normal positive floats in the order of the first 30 bits."""
    return jax.lax.bitcast_convert_type((bits >> 2) + jnp.uint32(0x20000000), jnp.float32)
