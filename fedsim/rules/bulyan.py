"""Bulyan: clients that Krum chooses one by one, and the values nearest to their median."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.median import median
from fedsim.rules.nearest_values import mean_of_nearest
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


def chosen_one_by_one(updates: Updates, f: int) -> tuple[Bool[Array, " K"], Int[Array, " K"]]:
    """Choose m−2f clients one by one, each by Krum among the clients that are left.

    Returns:
      The chosen clients; the indices of all slots, the chosen ones first in the order of choice.
    """
    present = updates.arrived
    K = present.shape[0]
    itself = jnp.arange(present.shape[0])

    distance = tree.squared_distances(updates.delta, present)
    distance = jnp.where(jnp.eye(K, dtype=bool), jnp.inf, distance)
    order = jnp.argsort(distance, axis=0, stable=True)  # column i: the neighbours of i, sorted
    ascending = jnp.take_along_axis(distance, order, 0)

    def choose(turn, state):
        left, turns = state
        nearest = jnp.maximum(jnp.sum(left) - f - 2, 1)
        others = left[order] & (order != itself)
        counted = others & (jnp.cumsum(others, axis=0) <= nearest)

        add = lambda rank, total: total + jnp.where(counted[rank], ascending[rank], 0)
        score = lax.fori_loop(0, K, add, jnp.zeros(K, distance.dtype))
        score = jnp.where(left, jnp.minimum(score, jnp.finfo(distance.dtype).max), jnp.inf)

        # Scores that differ by rounding alone are ties, which go to the first client.
        tolerance = 1 + 64 * jnp.finfo(score.dtype).eps
        best = jnp.argmax(score <= jnp.min(score) * tolerance)
        return left & (itself != best), turns.at[best].set(turn)

    start = present, jnp.full(K, K, jnp.int32)
    count = jnp.maximum(jnp.sum(present, dtype=jnp.int32) - 2 * f, 0)
    left, turns = lax.fori_loop(0, count, choose, start)
    return present & ~left, jnp.argsort(turns, stable=True)


@rule
def bulyan(f: Annotated[int, Ge(0)]) -> Rule:
    """Mean around the median of the clients that Krum chooses one by one.

    S: θ = m−2f times, the client with the least Krum score  Σ_{j ∈ N(i)} ‖x_i − x_j‖₂²  is moved
    from those that are left to S; N(i) is the m'−f−2 (at least 1) nearest of the m'−1 others left.
    The aggregate is, for every coordinate, the mean of the β = θ−2f values in S nearest to the
    median of S. Ties between clients go to the lowest index, ties between values to the client
    chosen first; with f of 1 or 2 the last choices are ties between two clients that are each
    other's nearest. Sample counts are ignored.

    Resists: f malicious clients, 4·f + 3 ≤ m, in every coordinate.    Cost: O(K²·D + K³).
    Needs: the whole stack, twice.

    Args:
      f: malicious clients to expect.

    Raises:
      ScenarioError: when fewer than 4·f + 3 clients can report (a round with fewer survivors is
        skipped).

    References:
      El Mhamdi, Guerraoui, Rouault 2018, The Hidden Vulnerability of Distributed Learning in
      Byzantium, arXiv:1802.07927.

    >>> import fedsim
    >>> rows = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [1e9]]
    >>> fedsim.aggregate({"kind": "bulyan", "f": 1}, rows).tolist()
    [2.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        chosen, order = chosen_one_by_one(updates, f)
        centre, _, _ = median().apply(updates._replace(arrived=chosen), (), context)
        nearest = jnp.sum(chosen) - 2 * f
        info = selection_report(chosen, updates, context)
        return mean_of_nearest(updates.delta, centre, chosen, nearest, order), state, info

    return Rule(apply=apply, least=4 * f + 3)
