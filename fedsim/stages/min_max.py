"""Min-max and min-sum: as far from the honest mean as honest clients are from each other."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import attack
from fedsim.stages.knowledge import Knowledge, dots, for_all, known_rows, mean_of, std_of
from fedsim.tree import Tree
from fedsim.types import Context, Updates

Direction = Literal["unit", "sign", "std"]


@attack
def min_max(direction: Direction = "unit", knowledge: Knowledge = "cohort"):
    """All malicious clients send the furthest point within the diameter of all honest updates.

    x_i ← μ + γ p, the largest γ with  max_i ‖μ + γ p − x_i‖₂ ≤ max_ij ‖x_i − x_j‖₂  over the known
    updates, from the roots of the quadratic equations. p = −μ/‖μ‖₂ (`unit`), −sign(μ) (`sign`) or
    −σ (`std`). The authors' code searches for γ by halving.

    Knows: as `knowledge` says.
    Defence: few rules where clients differ.
    Cost: O(K²·D).
    Needs: the whole stack.

    Args:
      direction: p.
      knowledge: `cohort`: of the honest clients of the round; `own`: of what the malicious ones
        would have sent.

    References:
      Shejwalkar, Houmansadr 2021, Manipulating the Byzantine, NDSS, section IV (AGR-agnostic,
      min-max).

    >>> import fedsim
    >>> fedsim.transmit("min_max", [[1.0], [3.0], [9.0]], malicious=[2])[0].tolist()
    [[1.0], [3.0], [1.0]]
    """

    def corrupt(updates: Updates, context: Context) -> Tree:
        known = known_rows(updates, context, knowledge)
        mean = mean_of(updates, known)
        p = direction_of(direction, updates, known, mean)

        # The larger root of a γ² + b γ + c = 0, for every known row.  [K]
        a = tree.norm(p) ** 2
        distance = tree.norms(updates.delta, mean)
        offsets = jax.tree.map(lambda m, x: m[None] - x, mean, updates.delta)
        half_b = dots(offsets, p)
        c = distance * distance - jnp.max(_pairs(updates, known), initial=0.0)
        root = -half_b + jnp.sqrt(jnp.maximum(half_b * half_b - a * c, 0))
        root = root / jnp.where(a > 0, a, 1)

        gamma = jnp.min(jnp.where(known, root, jnp.inf))
        gamma = jnp.where(jnp.any(known) & (a > 0), gamma, 0)
        return for_all(_moved(mean, p, gamma), updates)

    return corrupt


@attack
def min_sum(direction: Direction = "unit", knowledge: Knowledge = "cohort"):
    """All malicious clients send the furthest point with an honest sum of squared distances.

    x_i ← μ + γ p, the largest γ with  Σ_i ‖μ + γ p − x_i‖₂² ≤ max_i Σ_j ‖x_i − x_j‖₂²  over the
    known updates:
    γ² = (max_i Σ_j ‖x_i − x_j‖₂² − Σ_i ‖μ − x_i‖₂²) / (h ‖p‖₂²) for h of them. p as in `min_max`.
    The authors' code compares with the least of these sums, unlike the paper.

    Knows: as `knowledge` says.
    Defence: few rules where clients differ.
    Cost: O(K²·D).
    Needs: the whole stack.

    Args:
      direction: p.
      knowledge: `cohort`: of the honest clients of the round; `own`: of what the malicious ones
        would have sent.

    References:
      Shejwalkar, Houmansadr 2021, Manipulating the Byzantine, NDSS, section IV (AGR-agnostic,
      min-sum).

    >>> import fedsim
    >>> fedsim.transmit("min_sum", [[1.0], [3.0], [9.0]], malicious=[2])[0].tolist()
    [[1.0], [3.0], [1.0]]
    """

    def corrupt(updates: Updates, context: Context) -> Tree:
        known = known_rows(updates, context, knowledge)
        mean = mean_of(updates, known)
        p = direction_of(direction, updates, known, mean)
        distance = tree.norms(updates.delta, mean)
        most = jnp.max(jax.vmap(tree.sum_weights)(_pairs(updates, known)), initial=0.0)
        slack = most - tree.sum_weights(jnp.where(known, distance * distance, 0))
        scale = jnp.sum(known) * tree.norm(p) ** 2
        gamma = jnp.sqrt(jnp.maximum(slack, 0) / jnp.where(scale > 0, scale, 1))
        return for_all(_moved(mean, p, jnp.where(scale > 0, gamma, 0)), updates)

    return corrupt


def direction_of(
    direction: Direction, updates: Updates, known: Bool[Array, " K"], mean: Tree
) -> Tree:
    """p: against the mean of the known updates."""
    if direction == "unit":
        length = tree.norm(mean)
        return jax.tree.map(lambda m: -m / jnp.where(length > 0, length, 1).astype(m.dtype), mean)
    if direction == "sign":
        return jax.tree.map(lambda m: -jnp.sign(m), mean)
    return jax.tree.map(lambda s: -s, std_of(updates, known, mean))


def _pairs(updates: Updates, known: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Squared distances between known updates, 0 elsewhere."""
    both = known[:, None] & known[None, :]
    return jnp.where(both, tree.squared_distances(updates.delta, known), 0)


def _moved(mean: Tree, p: Tree, gamma: Array) -> Tree:
    return jax.tree.map(lambda m, x: m + gamma.astype(m.dtype) * x, mean, p)
