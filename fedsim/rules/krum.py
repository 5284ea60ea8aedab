"""Krum and Multi-Krum: the updates with the closest company."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.bounds import bounded, krum_bound
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(multikrum="multi_krum")


def krum_scores(updates: Updates, f: int, neighbours: int | None) -> Float[Array, " K"]:
    """Σ of the squared distances to the nearest other clients; +∞ for absent ones, finite for the others."""
    present = updates.arrived
    K, m = present.shape[0], jnp.sum(present)
    nearest = m - f - 2 if neighbours is None else jnp.minimum(neighbours, m - 1)
    distance = tree.squared_distances(updates.delta, present)
    ascending = jnp.sort(
        jnp.where(jnp.eye(K, dtype=bool), jnp.inf, distance), axis=0
    )  # column i: the others of i
    counted = (jnp.arange(K) < nearest).astype(distance.dtype)
    score = tree.fold(jnp.zeros(K, distance.dtype), ascending, counted)
    return jnp.where(present, jnp.minimum(score, jnp.finfo(distance.dtype).max), jnp.inf)


@rule
def krum(f: Annotated[int, Ge(0)], neighbours: Annotated[int, Ge(1)] | None = None) -> Rule:
    """The one update with the closest company.

    agg = x_{i*},  i* = argmin_i Σ_{j ∈ N(i)} ‖x_i − x_j‖₂²,  N(i) = the m−f−2 nearest of the other m−1 reporting clients.
    Ties go to the lowest index. Sample counts are ignored.

    Resists: f malicious clients, 2·f + 2 < m.    Cost: O(K²·D).    Needs: the whole stack.

    Args:
      f: malicious clients to expect.
      neighbours: how many others to measure; m−f−2 if left out (other software takes m−f−1).

    Raises:
      ScenarioError: when fewer than 2·f + 3 clients can report (a round with fewer survivors is skipped).

    References:
      Blanchard et al. 2017, Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, arXiv:1703.02757.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "krum", "f": 1}, [[0.0], [1.0], [1.5], [2.5], [1e9]]).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        best = jnp.argmin(krum_scores(updates, f, neighbours))
        chosen = tree.take(updates.delta, best)
        info = selected(
            updates.arrived & (jnp.arange(len(updates.arrived)) == best), updates, context
        )
        return tree.select(jnp.any(updates.arrived), chosen, tree.zeros_like(chosen)), state, info

    bound = bounded(krum_bound, f) if neighbours is None else None
    return Rule(apply=apply, least=max(2 * f + 3, (neighbours or 0) + 1), bound=bound)


@rule
def multi_krum(
    f: Annotated[int, Ge(0)],
    select: Annotated[int, Ge(1)] | None = None,
    neighbours: Annotated[int, Ge(1)] | None = None,
) -> Rule:
    """Plain mean of the updates with the best Krum scores.

    agg = 1/|S| Σ_{i∈S} x_i,  S = the `select` clients of lowest Krum score  Σ_{j ∈ N(i)} ‖x_i − x_j‖₂², all scored once
    among the m that reported; `select: 1` is Krum. Ties go to the lowest index. Sample counts are ignored.

    Resists: f malicious clients, 2·f + 2 < m, where select ≤ m − f.    Cost: O(K²·D).    Needs: the whole stack.

    Args:
      f: malicious clients to expect.
      select: how many updates to average; m−f if left out.
      neighbours: how many others to measure; m−f−2 if left out.

    Raises:
      ScenarioError: when fewer than 2·f + 3 clients can report (a round with fewer survivors is skipped).

    References:
      Blanchard et al. 2017, Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, arXiv:1703.02757,
      section 5.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "multi_krum", "f": 1, "select": 2}, [[0.0], [1.0], [1.5], [2.5], [1e9]]).tolist()
    [1.25]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        score = krum_scores(updates, f, neighbours)
        count = jnp.sum(updates.arrived) - f if select is None else select
        rank = jnp.argsort(jnp.argsort(score, stable=True))
        chosen = (rank < count) & updates.arrived
        info = selected(chosen, updates, context)
        return tree.weighted_mean(updates.delta, chosen.astype(updates.samples.dtype)), state, info

    return Rule(apply=apply, least=max(2 * f + 3, select or 0, (neighbours or 0) + 1))
