"""The coordinate-wise median."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim.compose import alias, rule
from fedsim.rules.bounds import bounded, median_bound
from fedsim.rules.sorting import Ranks, by_sorted_columns
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(fedmedian="median", coordinate_median="median")


@rule
def median() -> Rule:
    """Coordinate-wise median of the clients that reported.

    aggᵈ = ½ (x₍⌊(m+1)/2⌋₎ᵈ + x₍⌊m/2⌋+1₎ᵈ)  over the m values of coordinate d in ascending order
    x₍₁₎ᵈ ≤ … ≤ x₍ₘ₎ᵈ: the middle one, or the mean of the two middle ones where m is even. Sample
    counts are ignored.

    Resists: fewer than half of the clients, in every coordinate.
    Cost: O(K log² K) per coordinate.
    Needs: the whole stack.

    References:
      Yin et al. 2018, Byzantine-Robust Distributed Learning, arXiv:1803.01498, Algorithm 1,
      option I.

    >>> import fedsim
    >>> fedsim.aggregate("median", [[1.0], [2.0], [3.0], [1e9]]).tolist()
    [2.5]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        present = updates.arrived
        K = present.shape[0]
        m = jnp.sum(present)

        def middle(ranks: Ranks) -> Float[Array, "..."]:
            low = ranks.at(jnp.maximum(m - 1, 0) // 2, below=(K - 1) // 2 + 1)
            high = ranks.at(m // 2, below=K // 2 + 1)
            return jnp.where(m > 0, 0.5 * low + 0.5 * high, 0)  # low + high might overflow

        return by_sorted_columns(middle, updates.delta, present), state, {}

    return Rule(apply=apply, bound=bounded(median_bound))
