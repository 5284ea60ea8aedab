"""Bulyan: clients chosen by Krum, one after another, and the values nearest to their median."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.median import median
from fedsim.rules.nearest_values import mean_of_nearest
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


def chosen_one_by_one(updates: Updates, f: int) -> tuple[Bool[Array, " K"], Int[Array, " K"]]:
    """(the m−2f clients that Krum chooses, each among those that are left; all slots, these first, as they were chosen)."""
    present = updates.arrived
    K, itself = present.shape[0], jnp.arange(present.shape[0])
    distance = jnp.where(
        jnp.eye(K, dtype=bool), jnp.inf, tree.squared_distances(updates.delta, present)
    )
    order = jnp.argsort(
        distance, axis=0, stable=True
    )  # column i: the others of i, the nearest first
    ascending = jnp.take_along_axis(distance, order, 0)

    def choose(turn, state):
        left, turns = state
        nearest = jnp.maximum(jnp.sum(left) - f - 2, 1)
        others = left[order] & (order != itself)
        counted = others & (jnp.cumsum(others, axis=0) <= nearest)
        add = lambda rank, total: total + jnp.where(counted[rank], ascending[rank], 0)
        score = lax.fori_loop(0, K, add, jnp.zeros(K, distance.dtype))
        score = jnp.where(left, jnp.minimum(score, jnp.finfo(distance.dtype).max), jnp.inf)
        best = jnp.argmax(
            score <= jnp.min(score) * (1 + 64 * jnp.finfo(score.dtype).eps)
        )  # equal but for rounding: the first
        return left & (itself != best), turns.at[best].set(turn)

    start = present, jnp.full(K, K, jnp.int32)
    left, turns = lax.fori_loop(
        0, jnp.maximum(jnp.sum(present, dtype=jnp.int32) - 2 * f, 0), choose, start
    )
    return present & ~left, jnp.argsort(turns, stable=True)


@rule
def bulyan(f: Annotated[int, Ge(0)]) -> Rule:
    """Mean around the median of the clients that Krum chooses one after another.

    S = θ = m−2f clients: the one with the least Krum score  Σ_{j ∈ N(i)} ‖x_i − x_j‖₂²  is taken out of those that are left,
    θ times, N(i) being the m'−f−2 (at least 1) nearest of the m'−1 others left. Then of every coordinate the mean of the
    β = θ−2f values in S that are nearest to the median of S. Ties go to the lowest index, those of values to the client that
    was chosen first; with f of 1 or 2 the last choices are ties, of two clients that are each other's nearest. Sample
    counts are ignored.

    Resists: f malicious clients, 4·f + 3 ≤ m, in every coordinate.    Cost: O(K²·D + K³).
    Needs: the whole stack, twice.

    Args:
      f: malicious clients to expect.

    Raises:
      ScenarioError: when fewer than 4·f + 3 clients can report (a round with fewer survivors is skipped).

    References:
      El Mhamdi, Guerraoui, Rouault 2018, The Hidden Vulnerability of Distributed Learning in Byzantium, arXiv:1802.07927.

    >>> import fedsim
    >>> rows = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [1e9]]
    >>> fedsim.aggregate({"kind": "bulyan", "f": 1}, rows).tolist()
    [2.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        chosen, order = chosen_one_by_one(updates, f)
        centre, _, _ = median().apply(updates._replace(arrived=chosen), (), context)
        nearest = jnp.sum(chosen) - 2 * f
        info = selected(chosen, updates, context)
        return mean_of_nearest(updates.delta, centre, chosen, nearest, order), state, info

    return Rule(apply=apply, least=4 * f + 3)
