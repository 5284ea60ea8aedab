"""The largest coordinates of a message."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jaxtyping import Array, Int

from fedsim.codecs.selection import largest
from fedsim.codecs.sizes import index_bits, plus, subset_bits
from fedsim.codecs.values import entropy_bits, number_kept, sent_by, spread
from fedsim.compose import codec
from fedsim.tree import Tree
from fedsim.types import Codec


class Kept(NamedTuple):
    """What a sparsifier sends: k encoded values, and their indices in ascending order."""

    values: Tree
    places: Int[Array, " k"]


@codec
def top_k(
    k: Annotated[int, Ge(1)] | None = None,
    density: Annotated[float, Gt(0), Le(1)] | None = None,
    values: Codec | None = None,
    entropy: bool = False,
) -> Codec:
    """Sends the k coordinates of largest absolute value, with their indices; the others are 0.

    C(x)_j = x_j for the k largest |x_j|, of equal ones those of the lowest j, else 0.
    ‖C(x) − x‖² ≤ (1 − k/d) ‖x‖². With `values` the vector of the k values, in the order of their
    places, is what that codec makes of it.

    Bits: k (32 + ⌈log₂ d⌉); with `values` its bits for a vector of k numbers, and k ⌈log₂ d⌉.
    Biased: for the optimum of heterogeneous clients put it under `error_feedback`.
    Cost: O(d log k) per client for k < d/64, else 31 passes over the d coordinates.

    Args:
      k: coordinates that are sent, all of them if there are fewer.
      density: share of the coordinates instead, of d coordinates ⌈density · d⌉.
      values: a codec for the values, `{kind: cast}`; none that is linear, remembers, or encodes
        leaf by leaf.
      entropy: report the bits of an enumerative code of the places, ⌈log₂ C(d, k)⌉, with those of
        the values.

    References:
      Stich, Cordonnier, Jaggi 2018, Sparsified SGD with Memory, arXiv:1809.07599; with quantised
      values Basu, Data, Karakus, Diggavi 2019, Qsparse-local-SGD, arXiv:1906.02367; enumerative
      codes: Cover 1973, Enumerative Source Encoding.
    """
    kept, carrier = number_kept(k, density), sent_by(values)
    if entropy and carrier.most is not None and carrier.entropy is None:
        raise ValueError(
            f"entropy: the bits of {carrier.name} depend on the values, and it has no entropy code"
        )

    def encode(x, memory, key):
        d = len(x)
        places = largest(jnp.abs(x), kept(d))
        payload, bits, _ = carrier.encode(x[places], (), key)
        return Kept(payload, places), plus(bits, kept(d) * index_bits(d)), memory

    def decode(payload, d):
        return spread(carrier.decode(payload.values, kept(d)), payload.places, d)

    def coded(payload, d):
        n = kept(d)
        places = subset_bits(d, n) if entropy else n * index_bits(d)
        return places + entropy_bits(carrier, payload.values, n)

    made = Codec(encode, decode, entropy=coded if entropy or carrier.entropy else None)
    most = carrier.most
    return (
        made
        if most is None
        else made._replace(most=lambda d: most(kept(d)) + kept(d) * index_bits(d))
    )
