"""SignGuard: updates of usual length and usual shares of signs."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.flame import clipped_mean, median_length
from fedsim.rules.mean_shift import largest_mean_shift
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(signguard="sign_guard")


@rule
def sign_guard(low: Annotated[float, Gt(0)] = 0.1, high: Annotated[float, Gt(0)] = 3.0) -> Rule:
    """Clipped mean of the updates of usual length and usual shares of signs.

    M = the median of the m lengths;  S₁ = {i : L ≤ ‖x_i‖₂/M ≤ R};
    S₂ = the largest cluster, by mean shift, of the shares of coordinates that are positive, zero
    and negative;  agg = the mean over S₁ ∩ S₂ of x_i · min(1, M/‖x_i‖₂), zero if it is empty.
    Sample counts and updates that are not finite are ignored. The shares are of all coordinates;
    the paper draws a tenth of them.

    Resists: fewer than half of the clients, as far as they change lengths or signs.
    Cost: O(K·D + K²) per climb of the mean shift, at most 300 of them.
    Needs: the whole stack.

    Args:
      low: L, the shortest update that counts, in medians.
      high: R, the longest.

    References:
      Xu, Huang, Song, Lan 2022, Byzantine-robust Federated Learning through Collaborative Malicious
      Gradient Filtering, arXiv:2109.05872, Algorithm 2 (plain SignGuard).

    >>> import fedsim
    >>> rows = [[1.0, 1.0], [1.0, 2.0], [2.0, 1.0], [-1.0, -2.0], [9.0, 9.0]]
    >>> fedsim.aggregate("sign_guard", rows).round(3).tolist()
    [1.333, 1.333]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        alike = largest_mean_shift(sign_shares(updates.delta).astype(lengths.dtype), usable)
        median = median_length(lengths, usable)
        accepted = usable & alike & (lengths >= low * median) & (lengths <= high * median)
        mean = clipped_mean(updates.delta, lengths, median, accepted)
        return mean, state, selection_report(accepted, updates, context)

    return Rule(apply=apply)


def sign_shares(stacked: Tree) -> Float[Array, "K 3"]:
    """The shares of the coordinates of every row that are positive, zero and negative."""
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(stacked)]
    D = sum(leaf.shape[1] for leaf in leaves)
    count = lambda test: sum(jnp.sum(test(leaf), axis=1) for leaf in leaves)
    positive = count(lambda x: x > 0)
    zero = count(lambda x: x == 0)
    negative = count(lambda x: x < 0)
    return jnp.stack([positive, zero, negative], axis=1) * (1 / D)
