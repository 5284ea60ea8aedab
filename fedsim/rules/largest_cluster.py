"""Clustering: the larger of two clusters of angles."""

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.cosines import cosines, single_linkage
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def largest_cluster() -> Rule:
    """Plain mean of the larger one of the two clusters that the updates fall into by their angles.

    The m clients are cut in two so that the largest cosine between the two sides, max cos(x_i, x_j), is the least: the last
    step of single linkage. agg = the mean of the side with more clients; of two equal ones, that with the lowest index.
    Sample counts are ignored, and so are updates that are not finite.

    Resists: fewer than half of the clients, where they are farther from the others than these from each other; where nobody
    attacks, it leaves the oddest client out.    Cost: O(K²·D + K³).    Needs: the whole stack.

    References:
      Sattler, Müller, Wiegand, Samek 2020, On the Byzantine Robustness of Clustered Federated Learning, ICASSP.

    >>> import fedsim
    >>> fedsim.aggregate("largest_cluster", [[1.0, 0.0], [2.0, 0.1], [3.0, 0.0], [0.0, -9.0]]).round(3).tolist()
    [2.0, 0.033]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        joined = single_linkage(1 - cosines(updates.delta, usable), usable)
        pair = usable[:, None] & usable[None, :]
        last = jnp.max(jnp.where(pair, joined, -jnp.inf))
        below = pair & ((joined < last) | (last <= 0))  # rows in one direction are never cut apart
        itself = jnp.eye(len(usable), dtype=bool) & usable
        below |= itself
        kept = below[jnp.argmax(jnp.sum(below, axis=1))]
        info = selected(kept, updates, context)
        return tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype)), state, info

    return Rule(apply=apply)
