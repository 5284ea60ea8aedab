"""FedMGDA+: the common descent direction of the clients."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.types import Rule, Updates, by_samples, reported

STEPS = 500  # of the projected gradient method
HALVINGS = 60  # of an interval, to the precision of a float64
TILE = 16  # numbers that are summed side by side


@rule
def fedmgda(
    epsilon: Annotated[float, Ge(0), Le(1)] = 1.0,
    weights: Literal["samples", "uniform"] = "uniform",
) -> Rule:
    """FedMGDA+: the shortest mixture of updates of length 1, which no client is worse off by.

    x ← x + Σ_{i∈S} λ_i u_i  with  u_i = Δ_i/‖Δ_i‖ and λ = argmin ‖Σ λ_i u_i‖² over the simplex with
    |λ_i − p_i| ≤ ε, where p_i is 1/|S|, or n_i/n. A zero update has u_i = 0. The paper's step η is
    the `lr` of an `sgd` behind the rule.

    Resists: nothing; one client can decide where it goes, by a step of at most 1.
    Cost: O(K²·D).
    Needs: all rows at once.
    With ε = 0: the mean of updates of length 1.

    Args:
      epsilon: ε, how far a weight may be from that of the mean; 1: all of the simplex.
      weights: of the mean.

    References:
      Hu, Shaloudegi, Zhang, Yu 2022, Federated Learning Meets Multi-objective Optimization,
      arXiv:2006.11489, Algorithm 1 (FedMGDA+).
    """

    def apply(updates: Updates, state, context):
        del context
        w = by_samples(updates) if weights == "samples" else reported(updates)
        present = w > 0
        centre = w / jnp.maximum(tree.sum_weights(w), jnp.finfo(w.dtype).tiny)

        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        moved = present & (lengths > 0)
        inverse = jnp.where(moved, 1 / jnp.where(moved, lengths, 1), 0)
        # Present rows come first, so that no bit depends on where absent ones are.
        order = jnp.argsort(~present, stable=True)
        products = tree.cosines(updates.delta, moved)[order][:, order]
        shortest = _shortest(products, centre[order], present[order], epsilon)
        lambda_ = jnp.zeros_like(centre).at[order].set(shortest)
        return tree.weighted_sum(updates.delta, lambda_ * inverse), state, {}

    return Rule(apply=apply)


def _shortest(
    products: Float[Array, "K K"],
    centre: Float[Array, " K"],
    present: Bool[Array, " K"],
    epsilon: float,
) -> Float[Array, " K"]:
    """Return the weights of the shortest mixture: accelerated projected gradients, from `centre`.

    Args:
      products: of all pairs of rows.
      epsilon: how far a weight may be from the mean's.
    """
    low = jnp.where(present, jnp.maximum(centre - epsilon, 0), 0)
    high = jnp.where(present, jnp.minimum(centre + epsilon, 1), 0)
    largest = jnp.maximum(jnp.max(_times(jnp.abs(products), present), initial=0), 1)

    def step(_, state):
        weights, ahead, momentum = state
        new = _onto_box_of_simplex(ahead - _times(products, ahead) / largest, low, high)

        # Momentum is dropped where it points uphill (O'Donoghue and Candès 2015).
        uphill = _sum((ahead - new) * (new - weights)) > 0
        next_momentum = jnp.where(uphill, 1, (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2)
        push = jnp.where(uphill, 0, (momentum - 1) / next_momentum)
        return new, new + push * (new - weights), next_momentum

    one = jnp.ones((), centre.dtype)
    weights, _, _ = jax.lax.fori_loop(0, STEPS, step, (centre, centre, one))
    return weights


def _onto_box_of_simplex(
    v: Float[Array, " K"], low: Float[Array, " K"], high: Float[Array, " K"]
) -> Float[Array, " K"]:
    """Project onto low ≤ λ ≤ high, Σ λ = 1: λ = clip(v − τ, low, high), with τ by bisection."""

    def halve(_, interval):
        left, right = interval
        middle = (left + right) / 2
        too_large = _sum(jnp.clip(v - middle, low, high)) > 1
        return jnp.where(too_large, middle, left), jnp.where(too_large, right, middle)

    counts = high > 0  # absent rows have no weight, whatever τ is
    least = jnp.min(jnp.where(counts, v - high, jnp.inf), initial=jnp.inf)
    most = jnp.max(jnp.where(counts, v - low, -jnp.inf), initial=-jnp.inf)
    ends = (least, most)
    left, right = jax.lax.fori_loop(0, HALVINGS, halve, ends)
    return jnp.clip(v - (left + right) / 2, low, high)


def _times(matrix: Float[Array, "K K"], vector: Array) -> Float[Array, " K"]:
    """Return the product with a vector, column by column: K does not decide the order."""

    def add(k, total):
        return total + matrix[k] * vector[k]

    return jax.lax.fori_loop(0, len(vector), add, jnp.zeros_like(matrix[0]))


def _sum(v: Float[Array, " K"]) -> Float[Array, ""]:
    """Return the sum, tile by tile: zeros at the end, however many, change no bit of it."""
    tiles = jnp.pad(v, (0, -len(v) % TILE)).reshape(-1, TILE)
    add = lambda i, total: total + tiles[i]
    return jnp.sum(jax.lax.fori_loop(0, len(tiles), add, jnp.zeros(TILE, v.dtype)))
