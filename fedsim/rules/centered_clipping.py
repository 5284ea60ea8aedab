"""Centred clipping: the mean of updates clipped around the last aggregate."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jax import lax

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
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        count = jnp.sum(usable, dtype=updates.samples.dtype)

        def move(_, v: Tree) -> Tree:
            distances = jnp.where(usable, tree.norms(updates.delta, v), jnp.inf)
            share = jnp.minimum(1, radius / distances)

            def add(k, total):
                def pull(a, x, c):
                    return a + jnp.where(usable[k], share[k].astype(a.dtype) * (x[k] - c), 0)

                return jax.tree.map(pull, total, updates.delta, v)

            pulled = lax.fori_loop(0, usable.shape[0], add, tree.zeros_like(v))
            return tree.add(v, tree.divide(pulled, count))

        v = lax.fori_loop(0, iterations, move, state)
        return tree.select(count > 0, v, tree.zeros_like(v)), v, {}

    return Rule(apply=apply, init=lambda params, present: tree.zeros_like(params))
