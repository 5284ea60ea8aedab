"""FedExP's rule: the uniform mean, with a step that grows where updates disagree."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.tree import Tree
from fedsim.types import Fold, Rule, reported


class Iterate(NamedTuple):
    """State of FedExP's server."""

    before: Tree  # the parameters of the previous round


# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"eps=1e12": "mean(weights=uniform)"}


@rule
def fedexp(eps: Annotated[float, Ge(0)] = 1e-3, average: bool = True) -> Rule:
    """FedExP's rule: the uniform mean, and a longer step where the updates point apart.

    x ← x + η_g Δ̄  with  η_g = max{1, Σ‖Δ_i‖² / (2 m (‖Δ̄‖² + ε))} over the m clients that
    reported. Long steps oscillate, so the model that is evaluated is (x + x')/2, with the previous
    x'; clients train on x, which is also the model that is saved.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    State: x', one model.
    Needs: one block at a time.
    With equal updates: `mean(uniform)`, but for the model that is evaluated.

    Args:
      eps: ε, keeps the step finite where the mean vanishes.
      average: evaluate the mean of the last two iterates, as the paper does; else the last one.

    References:
      Jhunjhunwala et al. 2023, FedExP, arXiv:2301.09604, equation 8.
    """

    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples, updates.samples))

    def add(total, updates, context):
        del context
        w = reported(updates)
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        return tree.fold(total, (updates.delta, lengths * lengths, jnp.ones_like(w)), w)

    def finish(total, state, context):
        moved, squares, m = total
        mean = tree.divide(moved, m)
        length = tree.norm(mean)
        scale = 2 * m * (length * length + eps)
        step = jnp.maximum(1, tree.divide(squares, scale))
        if average:
            state = Iterate(context.shared["params"])
        return tree.scale(mean, step), state, {}

    fold = Fold(zero=zero, add=add, finish=finish)
    if not average:
        return folding(fold, reported)
    averaged = folding(fold, reported, lambda params, present: Iterate(params))
    return averaged._replace(evaluated=lambda params, state: tree.mix(params, state.before, 0.5))
