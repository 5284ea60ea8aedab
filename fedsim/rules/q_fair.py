"""q-FedAvg's rule: clients count by a power of their loss."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, Updates, reported

LEAST = 1e-10  # the least loss: the power may be below 0


# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"q=0": "mean(weights=uniform)"}


@rule
def q_fair(q: Annotated[float, Ge(0)] = 1.0, L: Annotated[float, Gt(0)] | None = None) -> Rule:
    """q-FedAvg's rule: clients count by the q-th power of their loss.

    x ← x + Σ_{i∈S} F_i^q L Δ_i / Σ_{i∈S} h_i  with  h_i = q F_i^(q−1) ‖L Δ_i‖² + L F_i^q  and
    F_i = f_i(x), over all samples of client i. The step is as long as the smoothness allows.

    Resists: being moved far: unless q = 0, a huge update makes h huge, so that the round moves
    nothing.
    Cost: O(K·D), one pass, and a pass over all samples before.
    Needs: one block at a time, and every client's loss at the global model.
    With q = 0: `mean(uniform)`.

    Args:
      q: how much a larger loss counts; 0: not at all, ∞: only the worst client counts.
      L: Lipschitz constant of the gradients; left out: 1/η_l.

    References:
      Li et al. 2020, Fair Resource Allocation in Federated Learning, arXiv:1905.10497, Algorithm 2.
    """

    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples))

    def add(total, updates: Updates, context):
        smooth = jnp.where(context.lr > 0, 1 / context.lr, 0) if L is None else L
        w = reported(updates)
        F = jnp.maximum(updates.loss, LEAST)
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        pull = smooth * F**q

        # A row counts by its pull, so that sums have a single product: 1. in `fedsim.tree.exact`.
        # The pull of an absent client may be NaN, which the sum leaves out as it does 0.
        h_by_pull = 1 + q * smooth * lengths * lengths / F
        return tree.fold(total, (updates.delta, h_by_pull), w * pull)

    def finish(total, state, context):
        del context
        return tree.divide(*total), state, {}

    weighted = folding(Fold(zero=zero, add=add, finish=finish), reported)
    return weighted._replace(needs=frozenset({"loss"}))
