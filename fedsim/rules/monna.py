"""MoNNA's aggregation: the nearest neighbours of a trusted client."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(nearest_neighbour_averaging="monna")


@rule
def monna(f: Annotated[int, Ge(0)], pivot: Annotated[int, Ge(0)] = 0) -> Rule:
    """Plain mean of the m−f updates nearest to the update of a trusted client.

    agg = 1/(m−f) Σ_{i∈N} x_i,  N = the m−f of the m reporting clients with the least ‖x_i − x_p‖₂,
    p included. Where client p did not report, the lowest id that did replaces it. Ties go to the
    lowest index. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m, if the pivot is honest, else nothing. In the paper every
    client aggregates for itself, and is its own pivot.
    Cost: O(K·D).
    Needs: the whole stack.

    Args:
      f: malicious clients to expect; 0 is the plain mean.
      pivot: p, the id of the client that is trusted.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report (a round with fewer survivors is
        skipped).

    References:
      Farhadkhani, Guerraoui, Gupta, Hoang, Pinot, Stephan 2023, Robust Collaborative Learning with
      Linear Gradient Overhead, arXiv:2209.10931.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "monna", "f": 1}, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        present = updates.arrived
        trusted = present & (context.ids == pivot)
        lowest = jnp.argmin(jnp.where(present, context.ids, jnp.inf))
        p = jnp.where(jnp.any(trusted), jnp.argmax(trusted), lowest)

        # The distance of p itself, which is 0, is no reason to measure all of them more carefully.
        others = present & (jnp.arange(len(present)) != p)
        distance, _ = tree.distances(updates.delta, tree.take(updates.delta, p), others)
        distance = jnp.where(jnp.isfinite(distance), distance, jnp.finfo(distance.dtype).max)
        rank = jnp.argsort(jnp.argsort(jnp.where(present, distance, jnp.inf), stable=True))
        accepted = present & (rank < jnp.sum(present) - f)

        info = selection_report(accepted, updates, context)
        mean = tree.weighted_mean(updates.delta, accepted.astype(updates.samples.dtype))
        return mean, state, info

    return Rule(apply=apply, least=2 * f + 1)
