"""The coordinate-wise trimmed mean."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.bounds import bounded, trimmed_bound
from fedsim.rules.sorting import Ranks, by_sorted_columns
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(fedtrimmedavg="trimmed_mean")


# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"trim=0": "mean(weights=uniform)"}


@rule
def trimmed_mean(trim: Annotated[int, Ge(0)] = 1) -> Rule:
    """Coordinate-wise mean without the smallest and the largest values.

    aggᵈ = 1/(m−2·trim) Σ_{trim < r ≤ m−trim} x₍ᵣ₎ᵈ  over the m values of coordinate d in ascending
    order: the `trim` smallest and the `trim` largest are dropped, the rest is averaged without
    weights.

    Resists: trim malicious clients, 2·trim < m.
    Cost: O(K log² K) per coordinate.
    Needs: the whole stack.

    Args:
      trim: how many values to drop from each tail (an integer: ⌊β·m⌋ may be rounded to one less).

    Raises:
      ScenarioError: when no more than 2·trim clients can report (a round with fewer survivors is
        skipped).

    References:
      Yin et al. 2018, Byzantine-Robust Distributed Learning, arXiv:1803.01498, Algorithm 1, option
      II.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "trimmed_mean", "trim": 1}, [[1.0], [2.0], [3.0], [1e9]]).tolist()
    [2.5]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        present = updates.arrived
        m = jnp.sum(present)
        count = jnp.maximum(m - 2 * trim, 0)

        def centre(ranks: Ranks) -> Float[Array, "..."]:
            total = ranks.sum(trim, count)
            return tree.divide(total, count.astype(total.dtype))

        return by_sorted_columns(centre, updates.delta, present), state, {}

    return Rule(apply=apply, least=2 * trim + 1, bound=bounded(trimmed_bound, trim))
