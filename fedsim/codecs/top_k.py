"""The largest coordinates of a message."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jaxtyping import Array, Int

from fedsim.codecs.sizes import index_bits, plus, subset_bits
from fedsim.codecs.values import entropy_bits, number_sent, spread, value_codec
from fedsim.compose import codec
from fedsim.tree import Tree
from fedsim.tree.selection import largest
from fedsim.types import Codec


class Sparse(NamedTuple):
    """The payload of a sparsifier: k values as their codec encodes them, and their indices."""

    values: Tree
    indices: Int[Array, " k"]


@codec
def top_k(
    k: Annotated[int, Ge(1)] | None = None,
    density: Annotated[float, Gt(0), Le(1)] | None = None,
    values: Codec | None = None,
    entropy: bool = False,
) -> Codec:
    """Sends the k coordinates that are largest in absolute value; the others are 0.

    C(x)_j = x_j for the k largest |x_j|, of equal ones those of the lowest j, else 0.
    ‖C(x) − x‖² ≤ (1 − k/d) ‖x‖². With `values` that codec sends the vector of the k values, in the
    order of their indices.

    Bits: k (32 + ⌈log₂ d⌉); with `values` its bits for a vector of k numbers, and k ⌈log₂ d⌉.
    Biased: for the optimum of heterogeneous clients put it under `error_feedback`.
    Cost: O(d log k) per client for k < d/128, else 31 passes over the d coordinates.

    Args:
      k: coordinates that are sent, all of them if there are fewer.
      density: share of the coordinates instead: ⌈density · d⌉ of d.
      values: a codec for the values, `{kind: cast}`; none that is linear, remembers, or encodes
        leaf by leaf.
      entropy: report the bits of an enumerative code of the indices, ⌈log₂ C(d, k)⌉, with those of
        the values.

    References:
      Stich, Cordonnier, Jaggi 2018, Sparsified SGD with Memory, arXiv:1809.07599; with quantised
      values Basu, Data, Karakus, Diggavi 2019, Qsparse-local-SGD, arXiv:1906.02367; enumerative
      codes: Cover 1973, Enumerative Source Encoding.
    """
    count = number_sent(k, density)
    inner = value_codec(values)
    if entropy and inner.most is not None and inner.entropy is None:
        reason = "depend on the values, and it has no entropy code"
        raise ValueError(f"entropy: the bits of {inner.name} {reason}")

    def encode(x, memory, key):
        d = len(x)
        indices = largest(jnp.abs(x), count(d))
        payload, bits, _ = inner.encode(x[indices], (), key)
        return Sparse(payload, indices), plus(bits, count(d) * index_bits(d)), memory

    def decode(payload, d):
        return spread(inner.decode(payload.values, count(d)), payload.indices, d)

    def coded(payload, d):
        n = count(d)
        bits_of_indices = subset_bits(d, n) if entropy else n * index_bits(d)
        return bits_of_indices + entropy_bits(inner, payload.values, n)

    has_code = entropy or inner.entropy is not None
    sparse = Codec(encode, decode, entropy=coded if has_code else None)
    most = inner.most
    if most is None:
        return sparse
    return sparse._replace(most=lambda d: most(count(d)) + count(d) * index_bits(d))
