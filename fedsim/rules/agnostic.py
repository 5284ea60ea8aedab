"""Agnostic federated learning: the worst mixture of clients."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.types import Rule, Updates, reported


class Mixture(NamedTuple):
    """State of AFL's server."""

    lambda_: Float[Array, " N"]  # the weight of every client


@rule
def agnostic(lr: Annotated[float, Ge(0)] = 0.1) -> Rule:
    """Agnostic federated learning: client weights climb towards the worst mixture of clients.

    x ← x + Σ_{i∈S} λ_i Δ_i / Σ_{i∈S} λ_i ;  λ ← Π(λ + γ_λ F), where F_i = f_i(x) for the clients
    that reported, and their mean for all others. Π projects onto the simplex; at the start
    λ_i = 1/N for the N clients that can take part. In the paper every client takes part with a
    single gradient step: `fedsgd`.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), and O(N log N).
    State: λ, one number per client.
    Needs: all rows at once, and every client's loss at the global model.
    With γ_λ = 0: `mean(uniform)`.

    Args:
      lr: γ_λ, the learning rate of the weights.

    References:
      Mohri, Sivek, Suresh 2019, Agnostic Federated Learning, arXiv:1902.00146, Figure 3.
    """

    def init(params, present):
        dtype = jnp.result_type(*jax.tree.leaves(params))
        return Mixture(present.astype(dtype) / jnp.maximum(jnp.sum(present, dtype=dtype), 1))

    def apply(updates: Updates, state, context):
        w = reported(updates)
        weights = state.lambda_
        step = tree.weighted_mean(updates.delta, w * weights[context.ids])

        # Π is blind to a gain that all weights share, so the mean loss stands for absent clients.
        excess = updates.loss - tree.weighted_mean(updates.loss, w)
        gain = jnp.where(w > 0, lr * excess, 0)
        weights = _project(weights.at[context.ids].add(gain, mode="drop"))
        return step, Mixture(weights), {}

    return Rule(apply=apply, init=init, needs=frozenset({"loss"}))


def _project(v: jax.Array) -> jax.Array:
    """Project a vector `[N]` onto the simplex (Duchi et al. 2008)."""
    descending = jnp.sort(v)[::-1]
    thresholds = (jnp.cumsum(descending) - 1) / jnp.arange(1, len(v) + 1)
    last = jnp.sum(descending > thresholds) - 1
    return jnp.maximum(v - thresholds[last], 0)
