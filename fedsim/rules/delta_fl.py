"""Δ-FL: the mean of the worst clients, a superquantile."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Gt, Le
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.types import Rule, Updates, reported

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"theta=1": "mean(weights=uniform)"}


@rule
def delta_fl(theta: Annotated[float, Gt(0), Le(1)] = 0.5) -> Rule:
    """Δ-FL: the mean over the share θ of the clients whose loss is largest.

    x ← x + Σ_{i∈S} π_i Δ_i, where π maximises Σ π_i F_i over 0 ≤ π_i ≤ 1/(θ|S|), Σ π_i = 1, and
    F_i = f_i(x) over all samples of client i: the weights of the superquantile (CVaR). Where θ|S|
    is whole, they are those of the mean over the θ|S| clients of largest loss; of equal losses, the
    first slot counts first.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), and a pass over all samples before.
    Needs: all rows at once, and every client's loss at the global model.
    With θ = 1: `mean(uniform)`.

    Args:
      theta: θ, the conformity level: the share of clients that count.

    References:
      Laguel, Pillutla, Malick, Harchaoui 2021, A Superquantile Approach to Federated Learning with
      Heterogeneous Devices; Pillutla et al. 2023, Federated Learning with Superquantile
      Aggregation for Heterogeneous Data, arXiv:2112.09429, Algorithm 1.
    """

    def weights(updates: Updates) -> Float[Array, " K"]:
        drawn = reported(updates)
        order = jnp.argsort(jnp.where(drawn > 0, -updates.loss, jnp.inf), stable=True)

        # Fill up the share θ, from the largest loss on.
        share = drawn[order]
        before = jnp.cumsum(share) - share
        rest = theta * tree.sum_weights(drawn) - before
        counted = jnp.clip(rest, 0, share)
        return jnp.zeros_like(drawn).at[order].set(counted)

    def apply(updates: Updates, state, context):
        del context
        return tree.weighted_mean(updates.delta, weights(updates)), state, {}

    return Rule(apply=apply, weights=weights, needs=frozenset({"loss"}))
