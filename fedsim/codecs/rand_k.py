"""Random coordinates of a message."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from fedsim.codecs.sizes import SEED_BITS, plus
from fedsim.codecs.top_k import Sparse
from fedsim.codecs.values import entropy_bits, number_sent, spread, value_codec
from fedsim.compose import codec
from fedsim.tree.selection import random_indices
from fedsim.types import Codec


@codec
def rand_k(
    k: Annotated[int, Ge(1)] | None = None,
    density: Annotated[float, Gt(0), Le(1)] | None = None,
    values: Codec | None = None,
    scale: bool = True,
) -> Codec:
    """Sends k random coordinates, drawn without replacement and scaled by d/k; the others are 0.

    C(x)_j = (d/k) x_j for the k indices drawn, else 0.
    E C(x) = x and E‖C(x) − x‖² = (d/k − 1) ‖x‖².
    Without `scale` C(x)_j = x_j there: E C(x) = (k/d) x and E‖C(x) − x‖² = (1 − k/d) ‖x‖².

    Bits: 32 k + 32, with a seed of 32 bits instead of indices; with `values` its bits for k
    numbers, and 32.
    Cost: O(d), where k is not far below d also d random numbers and the k largest of them, see
    `top_k`. If a coordinate is infinite once scaled, its message is dropped.

    Under `error_feedback` and in `ef21` take `scale: false`. They need a contraction, and the
    scaled codec is not one for d/k ≥ 2: where a coordinate is sent, its error is multiplied by
    (1 − d/k).

    Args:
      k: coordinates that are sent, all of them if there are fewer.
      density: share of the coordinates instead: ⌈density · d⌉ of d.
      values: a codec for the values, `{kind: cast}`; none that is linear, remembers, or encodes
        leaf by leaf.
      scale: whether to scale by d/k, which makes it unbiased.

    References:
      Konečný et al. 2016, Federated Learning: Strategies for Improving Communication Efficiency,
      arXiv:1610.05492 (random mask, its seed); unscaled, under error feedback: Stich, Cordonnier,
      Jaggi 2018, Sparsified SGD with Memory, arXiv:1809.07599; contractions and scaling: Beznosikov
      et al. 2020, On Biased Compression for Distributed Learning, arXiv:2002.12410.
    """
    count = number_sent(k, density)
    inner = value_codec(values)

    def encode(x, memory, key):
        indices = random_indices(jax.random.fold_in(key, 0), len(x), count(len(x)))
        payload, bits, _ = inner.encode(x[indices], (), jax.random.fold_in(key, 1))
        return Sparse(payload, indices), plus(bits, SEED_BITS), memory

    def decode(payload, d):
        values = inner.decode(payload.values, count(d))

        # A shorter type would round d/k.
        values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
        if scale:
            values = values * (d / count(d))
        return spread(values, payload.indices, d)

    def coded(payload, d):
        return SEED_BITS + entropy_bits(inner, payload.values, count(d))

    sparse = Codec(encode, decode, entropy=coded if inner.entropy else None)
    most = inner.most
    if most is None:
        return sparse
    return sparse._replace(most=lambda d: most(count(d)) + SEED_BITS)
