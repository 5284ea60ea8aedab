"""MoNNA's aggregation: the nearest neighbours of one client."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(nearest_neighbour_averaging="monna")


@rule
def monna(f: Annotated[int, Ge(0)], pivot: Annotated[int, Ge(0)] = 0) -> Rule:
    """Plain mean of the m−f updates that are nearest to that of one trusted client.

    agg = 1/(m−f) Σ_{i∈N} x_i,  N = the m−f of the m reporting clients with the least ‖x_i − x_p‖₂, p itself included. Where
    client p did not report, the lowest id that did stands for it. Ties go to the lowest index. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m, if the pivot is honest: in the paper every client aggregates for itself, and is its
    own. Nothing where it is not.    Cost: O(K·D).    Needs: the whole stack.

    Args:
      f: malicious clients to expect; 0 is the plain mean.
      pivot: p, the id of the client that is trusted.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report (a round with fewer survivors is skipped).

    References:
      Farhadkhani, Guerraoui, Gupta, Hoang, Pinot, Stephan 2023, Robust Collaborative Learning with Linear Gradient Overhead,
      arXiv:2209.10931.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "monna", "f": 1}, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        present = updates.arrived
        trusted = present & (context.ids == pivot)
        p = jnp.where(
            jnp.any(trusted),
            jnp.argmax(trusted),
            jnp.argmin(jnp.where(present, context.ids, jnp.inf)),
        )
        away = tree.norms(updates.delta, tree.take(updates.delta, p))
        away = jnp.where(jnp.isfinite(away), away, jnp.finfo(away.dtype).max)
        rank = jnp.argsort(jnp.argsort(jnp.where(present, away, jnp.inf), stable=True))
        kept = present & (rank < jnp.sum(present) - f)
        info = selected(kept, updates, context)
        return tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype)), state, info

    return Rule(apply=apply, least=2 * f + 1)
