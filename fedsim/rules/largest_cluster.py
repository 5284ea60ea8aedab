"""Clustering: the larger of two clusters by angle."""

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.selection import selection_report
from fedsim.rules.single_linkage import single_linkage
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def largest_cluster() -> Rule:
    """Plain mean of the larger of the two clusters into which the angles split the updates.

    The m clients are split in two so that the largest cosine between the two sides,
    max cos(x_i, x_j), is least: the last step of single linkage. agg = the mean of the side with
    more clients; of two equal ones, that with the lowest index. Sample counts and updates that are
    not finite are ignored.

    Resists: fewer than half of the clients, where they are farther from the others than these from
    each other; where nobody attacks, it leaves out the most unusual client.
    Cost: O(K²·D + K³).
    Needs: the whole stack.

    References:
      Sattler, Müller, Wiegand, Samek 2020, On the Byzantine Robustness of Clustered Federated
      Learning, ICASSP.

    >>> import fedsim
    >>> rows = [[1.0, 0.0], [2.0, 0.1], [3.0, 0.0], [0.0, -9.0]]
    >>> fedsim.aggregate("largest_cluster", rows).round(3).tolist()
    [2.0, 0.033]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        joined = single_linkage(1 - tree.cosines(updates.delta, usable), usable)
        pair = usable[:, None] & usable[None, :]
        last = jnp.max(jnp.where(pair, joined, -jnp.inf))
        below = pair & ((joined < last) | (last <= 0))  # rows in the same direction stay together
        below |= jnp.eye(len(usable), dtype=bool) & usable
        accepted = below[jnp.argmax(jnp.sum(below, axis=1))]
        info = selection_report(accepted, updates, context)
        mean = tree.weighted_mean(updates.delta, accepted.astype(updates.samples.dtype))
        return mean, state, info

    return Rule(apply=apply)
