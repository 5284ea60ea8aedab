"""FedNova's rule: the mean per unit of local work."""

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, by_samples


@rule
def nova() -> Rule:
    """FedNova's rule: updates per unit of local work, times the mean work; so who trains longer does not pull harder.

    x ← x + τ_eff Σ p_i Δ_i / ‖a_i‖₁  with  τ_eff = Σ p_i ‖a_i‖₁ and p_i = n_i / Σ n_j over the clients that reported.
    ‖a_i‖₁ is the effort that the client method reports: the local steps, unless it is `fednova`, which measures it.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.    Needs: one block at a time.
    With equal efforts: `mean`.

    References:
      Wang et al. 2020, Tackling the Objective Inconsistency Problem, arXiv:2007.07481, Theorem 1.
    """

    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples, updates.samples))

    def add(total, updates, context):
        del context
        moved, effort, weight = total
        w, worked = by_samples(updates), updates.effort > 0
        per_effort = jnp.where((w > 0) & worked, w / jnp.where(worked, updates.effort, 1), 0)
        numbers = (updates.effort, jnp.ones_like(w))
        return tree.fold(moved, updates.delta, per_effort), *tree.fold((effort, weight), numbers, w)

    def finish(total, state, context):
        del context
        moved, effort, weight = total
        return (
            tree.divide(tree.scale(moved, effort / jnp.where(weight > 0, weight, 1)), weight),
            state,
            {},
        )

    return folding(Fold(zero=zero, add=add, finish=finish), by_samples)
