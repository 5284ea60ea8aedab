"""FedNova's rule: the mean per unit of local work."""

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, by_samples


@rule
def nova() -> Rule:
    """FedNova's rule: updates per unit of local work, times the mean work.

    So a client that trains longer does not pull harder.

    x ← x + τ_eff Σ p_i Δ_i / ‖a_i‖₁  with  τ_eff = Σ p_i ‖a_i‖₁ and p_i = n_i / Σ n_j over the
    clients that reported. ‖a_i‖₁ is the effort that the client method reports: the local steps,
    unless it is `fednova`, which measures it.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    Needs: one block at a time.
    With equal efforts: `mean`.

    References:
      Wang et al. 2020, Tackling the Objective Inconsistency Problem, arXiv:2007.07481, Theorem 1.
    """

    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples, updates.samples))

    def add(total, updates, context):
        del context
        moved, effort, weight = total
        w = by_samples(updates)
        has_worked = updates.effort > 0
        per_effort = w / jnp.where(has_worked, updates.effort, 1)
        per_effort = jnp.where((w > 0) & has_worked, per_effort, 0)

        moved = tree.fold(moved, updates.delta, per_effort)
        effort, weight = tree.fold((effort, weight), (updates.effort, jnp.ones_like(w)), w)
        return moved, effort, weight

    def finish(total, state, context):
        del context
        moved, effort, weight = total
        scaled = tree.scale(moved, effort / jnp.where(weight > 0, weight, 1))
        return tree.divide(scaled, weight), state, {}

    return folding(Fold(zero=zero, add=add, finish=finish), by_samples)
