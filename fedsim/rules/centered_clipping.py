"""Centred clipping: the mean of updates clipped around the last aggregate."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jax import lax
from jaxtyping import Array

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(cclip="centered_clipping", centered_clip="centered_clipping")


@rule
def centered_clipping(
    radius: Annotated[float, Gt(0)], iterations: Annotated[int, Ge(1), Le(100_000)] = 1
) -> Rule:
    """Mean of the updates, clipped around the last aggregate.

    v ← v + 1/m Σ_i (x_i − v)·min(1, τ / ‖x_i − v‖₂), `iterations` times; v starts at the aggregate
    of the previous round, and at zero in the first. Sample counts and updates that are not finite
    are ignored.

    Resists: fewer than half of the clients, which move it by at most radius·iterations a round.
    Cost: O(K·D) per iteration.    Needs: the whole stack, and v between rounds.

    Args:
      radius: τ, how far from v a client may pull.
      iterations: how often v is moved in a round.

    References:
      Karimireddy et al. 2021, Learning from History for Byzantine Robust Optimization,
      arXiv:2012.10333, Algorithm 2.

    >>> import fedsim
    >>> rule = {"kind": "centered_clipping", "radius": 3.0}
    >>> fedsim.aggregate(rule, [[1.0], [2.0], [1e9]]).tolist()
    [2.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context

        def move(_, moved: tuple[Tree, Array]) -> tuple[Tree, Array]:
            v, _ = moved
            distances, usable = tree.distances(updates.delta, v, updates.arrived)
            count = jnp.sum(usable, dtype=updates.samples.dtype)
            share = jnp.where(usable, jnp.minimum(1, radius / distances), 0)

            # Σ share_i (x_i − v) as a weighted sum of the rows, less v as often.
            pulled = tree.weighted_sum(updates.delta, share)
            rest = tree.scale(v, tree.sum_weights(share))
            return tree.add(v, tree.divide(tree.subtract(pulled, rest), count)), count

        start = state, jnp.zeros((), updates.samples.dtype)
        v, count = lax.fori_loop(0, iterations, move, start)
        return tree.select(count > 0, v, tree.zeros_like(v)), v, {}

    return Rule(apply=apply, init=lambda params, present: tree.zeros_like(params))
