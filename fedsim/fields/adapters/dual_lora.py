"""Two low-rank matrices next to a frozen weight: one for all clients, one of the client's own."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from fedsim.compose import adapter
from fedsim.fields.adapters.factors import LowRank
from fedsim.fields.adapters.lora import A, B, start
from fedsim.types import Adapter

LOCAL_A = "local_A"
LOCAL_B = "local_B"


@adapter
def dual_lora(
    rank: Annotated[int, Ge(1)] = 4,
    alpha: Annotated[float, Gt(0)] | None = None,
    weight: Annotated[float, Ge(0), Le(1)] = 0.5,
    targets: list[str] | None = None,
) -> Adapter:
    """Two low-rank matrices next to every frozen weight, to share one and keep the other (FedDPA).

    x W becomes x W + (alpha/rank) x ((1 − weight) A B + weight A' B'). Both pairs start as in
    `lora`: the adapted model starts as the model itself, bit for bit. A and B are the leaves
    `lora_A` and `lora_B`, A' and B' are `local_A` and `local_B`, which are personal under `fedrep`
    (first the local pairs are trained, then the global ones, as in FedDPA-T) or `fedper` (all at
    once) with `personal: [local_A, local_B]`. Both pairs are in place whichever is trained, by the
    same weight, as under `glocal` in the authors' code; their weights by the similarity of a sample
    to the client's others are not built.

    Sends: rank·(m + n) numbers for every target `[m, n]` where the local pairs are personal, twice
    as many otherwise; 4 bytes each.

    Args:
      rank: columns of A, and of A', at most min(m, n) of every target.
      alpha: the products count alpha/rank; by default alpha = rank.
      weight: part of the local pair; 0.5 in the authors' code.
      targets: weights that are adapted, as in `lora`.

    Raises:
      ValueError: at build time, for targets that no leaf has, and for a rank above min(m, n).

    References:
      Yang et al. 2024, Dual-Personalizing Adapter for Federated Foundation Models,
      arXiv:2403.19211, section 4.
    """
    scale = 1.0 if alpha is None else alpha / rank

    def init(key, name, W):
        local = start(jax.random.fold_in(key, 1), name, W, rank)
        return {**start(key, name, W, rank), LOCAL_A: local[A], LOCAL_B: local[B]}

    def apply(W, leaves, *, factored, key):
        del key
        # Two pairs are one of twice the rank.
        both_A = jnp.concatenate([(1 - weight) * leaves[A], weight * leaves[LOCAL_A]], axis=1)
        both_B = jnp.concatenate([leaves[B], leaves[LOCAL_B]])
        low_rank = LowRank(W, both_A, both_B, jnp.asarray(scale, W.dtype))
        return low_rank if factored and W.ndim == 2 else low_rank.merged()

    return Adapter(init=init, apply=apply, leaves=(A, B, LOCAL_A, LOCAL_B), targets=targets)
