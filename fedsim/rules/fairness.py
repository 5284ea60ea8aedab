"""Rules that look at the clients' losses at x: the worse off a client is, the more it counts."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, Updates, reported


class Mixture(NamedTuple):
    """What AFL's server remembers."""

    lambda_: Float[Array, " N"]


LEAST = 1e-10  # of a loss that is taken to a power below 0


@rule
def q_fair(q: Annotated[float, Ge(0)] = 1.0, L: Annotated[float, Gt(0)] | None = None) -> Rule:
    """q-FedAvg's rule: clients count by the q-th power of their loss, and the step is as long as its smoothness allows.

    x ← x + Σ_{i∈S} F_i^q L Δ_i / Σ_{i∈S} h_i  with  h_i = q F_i^(q−1) ‖L Δ_i‖² + L F_i^q  and F_i = f_i(x), over all
    samples of client i.

    Resists: being moved far: a huge update makes h huge, and stops the round instead (unless q = 0).
    Cost: O(K·D), one pass, and a pass over all samples before.
    Needs: one block at a time, and every client's loss at x.    With q = 0: `mean(uniform)`.

    Args:
      q: how much the worse off count; 0 is indifference, ∞ is the worst client alone.
      L: Lipschitz constant of the gradients; left out: 1/η_l.

    References:
      Li et al. 2020, Fair Resource Allocation in Federated Learning, arXiv:1905.10497, Algorithm 2.
    """

    def zero(updates):
        return tree.zero_row(updates.delta), jnp.zeros((), updates.weight.dtype)

    def add(total, updates: Updates, context):
        smooth = jnp.where(context.lr > 0, 1 / context.lr, 0) if L is None else L
        w, F = reported(updates), jnp.maximum(updates.loss, LEAST)
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        pull = smooth * F**q
        h = pull * (1 + q * smooth * lengths * lengths / F)  # the sum has one product: no choice for the compiler
        return tree.fold(total, (updates.delta, h / jnp.where(pull > 0, pull, 1)), jnp.where(w > 0, w * pull, 0))

    def finish(total, state, context):
        del context
        return tree.divide(*total), state, {}

    return folding(Fold(zero, add, finish), reported)._replace(needs=frozenset({"loss"}))


@rule
def agnostic(lr: Annotated[float, Ge(0)] = 0.1) -> Rule:
    """Agnostic federated learning: clients' weights climb against the model, towards the worst mixture of clients.

    x ← x + Σ_{i∈S} λ_i Δ_i / Σ_{i∈S} λ_i ;  λ ← Π(λ + γ_λ F), where F_i = f_i(x) of the clients that reported, their mean
    for all others, and Π projects on the simplex; λ_i = 1/N at the start for the N
    clients that can take part. The paper takes one gradient step, of
    everybody: `fedsgd`.

    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), and O(N log N).    State: λ, a number a client.
    Needs: all rows at once, and every client's loss at x.    With γ_λ = 0: `mean(uniform)`.

    Args:
      lr: γ_λ, the weights' learning rate.

    References:
      Mohri, Sivek, Suresh 2019, Agnostic Federated Learning, arXiv:1902.00146, Figure 3.
    """

    def init(params, present):
        dtype = jnp.result_type(*jax.tree.leaves(params))
        return Mixture(present.astype(dtype) / jnp.maximum(jnp.sum(present, dtype=dtype), 1))

    def apply(updates: Updates, state, context):
        here, weights = reported(updates), state.lambda_
        step = tree.weighted_mean(updates.delta, here * weights[context.ids])
        above = updates.loss - tree.weighted_mean(updates.loss, here)  # Π does not see what all gain alike
        gained = jnp.where(here > 0, lr * above, 0)
        there = jnp.where(here > 0, context.ids, len(weights))  # beyond the last client: not written
        return step, Mixture(_projected(weights.at[there].add(gained, mode="drop"))), {}

    return Rule(apply, init, needs=frozenset({"loss"}))


def _projected(v: jax.Array) -> jax.Array:
    """The nearest point of the simplex, for a vector `[N]` (Duchi et al. 2008)."""
    falling = jnp.sort(v)[::-1]
    over = (jnp.cumsum(falling) - 1) / jnp.arange(1, len(v) + 1)
    last = jnp.sum(falling > over) - 1
    return jnp.maximum(v - over[last], 0)
