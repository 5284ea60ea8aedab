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
    """What AFL's server remembers."""

    lambda_: Float[Array, " N"]


@rule
def agnostic(lr: Annotated[float, Ge(0)] = 0.1) -> Rule:
    """Agnostic federated learning: clients' weights climb against the model, towards the worst mixture of clients.

    x ← x + Σ_{i∈S} λ_i Δ_i / Σ_{i∈S} λ_i ;  λ ← Π(λ + γ_λ F), where F_i = f_i(x) of the clients that reported, their mean
    for all others, and Π projects on the simplex; λ_i = 1/N at the start for the N
    clients that can take part. The paper takes one gradient step, of
    everybody: `fedsgd`.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), and O(N log N).    State: λ, a number a client.
    Needs: all rows at once, and every client's loss at the global model.    With γ_λ = 0: `mean(uniform)`.

    Args:
      lr: γ_λ, the weights' learning rate.

    References:
      Mohri, Sivek, Suresh 2019, Agnostic Federated Learning, arXiv:1902.00146, Figure 3.
    """

    def init(params, present):
        dtype = jnp.result_type(*jax.tree.leaves(params))
        return Mixture(present.astype(dtype) / jnp.maximum(jnp.sum(present, dtype=dtype), 1))

    def apply(updates: Updates, state, context):
        w, weights = reported(updates), state.lambda_
        step = tree.weighted_mean(updates.delta, w * weights[context.ids])
        above = updates.loss - tree.weighted_mean(
            updates.loss, w
        )  # Π does not see what all gain alike
        gain = jnp.where(w > 0, lr * above, 0)
        return step, Mixture(_project(weights.at[context.ids].add(gain, mode="drop"))), {}

    return Rule(apply=apply, init=init, needs=frozenset({"loss"}))


def _project(v: jax.Array) -> jax.Array:
    """The nearest point of the simplex, for a vector `[N]` (Duchi et al. 2008)."""
    falling = jnp.sort(v)[::-1]
    over = (jnp.cumsum(falling) - 1) / jnp.arange(1, len(v) + 1)
    last = jnp.sum(falling > over) - 1
    return jnp.maximum(v - over[last], 0)
