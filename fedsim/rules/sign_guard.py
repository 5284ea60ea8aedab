"""SignGuard: updates of usual length, whose signs are shared out as those of most."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.flame import clipped_mean
from fedsim.rules.mean_shift import largest_mean_shift
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(signguard="sign_guard")


@rule
def sign_guard(low: Annotated[float, Gt(0)] = 0.1, high: Annotated[float, Gt(0)] = 3.0) -> Rule:
    """Clipped mean of the updates of usual length whose shares of signs are those of most.

    M = the median of the m lengths;  S₁ = {i : L ≤ ‖x_i‖₂/M ≤ R};  S₂ = the largest cluster, by mean shift, of the shares of
    coordinates that are positive, zero and negative;  agg = the mean over S₁ ∩ S₂ of x_i · min(1, M/‖x_i‖₂), zero if it is
    empty. Sample counts are ignored, and so are updates that are not finite. The shares are of all coordinates, where the
    paper draws a tenth of them.

    Resists: fewer than half of the clients, as far as they change lengths or signs.    Cost: O(K·D + K²) per climb of the
    mean shift, at most 300 of them.    Needs: the whole stack.

    Args:
      low: L, the shortest update that counts, in medians.
      high: R, the longest.

    References:
      Xu, Huang, Song, Lan 2022, Byzantine-robust Federated Learning through Collaborative Malicious Gradient Filtering,
      arXiv:2109.05872, Algorithm 2 (plain SignGuard).

    >>> import fedsim
    >>> rows = [[1.0, 1.0], [1.0, 2.0], [2.0, 1.0], [-1.0, -2.0], [9.0, 9.0]]
    >>> fedsim.aggregate("sign_guard", rows).round(3).tolist()
    [1.333, 1.333]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        alike = largest_mean_shift(sign_shares(updates.delta).astype(lengths.dtype), usable)
        _, median = clipped_mean(updates.delta, usable, usable)
        kept = usable & alike & (lengths >= low * median) & (lengths <= high * median)
        mean, _ = clipped_mean(updates.delta, kept, usable)
        info = selected(kept, updates, context)
        return mean, state, info

    return Rule(apply=apply)


def sign_shares(stacked: Tree) -> Float[Array, "K 3"]:
    """Shares of the coordinates that are positive, zero and negative, of every row."""
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(stacked)]
    D = sum(leaf.shape[1] for leaf in leaves)
    of = lambda test: sum(jnp.sum(test(leaf), axis=1) for leaf in leaves)
    counts = [of(lambda x: x > 0), of(lambda x: x == 0), of(lambda x: x < 0)]
    return jnp.stack(counts, axis=1) * (1 / D)
