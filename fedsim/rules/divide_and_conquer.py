"""Divide and conquer: outliers along the top direction of random coordinates."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.eigen import dominant
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(dnc="divide_and_conquer")


@rule
def divide_and_conquer(
    f: Annotated[int, Ge(0)],
    iterations: Annotated[int, Ge(1), Le(1000)] = 1,
    coordinates: Annotated[int, Ge(1)] = 10_000,
    factor: Annotated[float, Ge(0)] = 1.0,
) -> Rule:
    """Plain mean of the updates that are no outliers along the top direction of random coordinates.

    `iterations` times: of the m updates, restricted to b random coordinates and centred, v is the top right singular vector;
    the ⌊c·f⌋ updates with the largest ⟨x_i − x̄, v⟩² are bad.  agg = the mean of those that never were (zero if there is
    none). Ties keep the lowest index. Sample counts are ignored, and so are updates that are not finite.

    Resists: f malicious clients, 2·f < m.    Cost: O(K²·b + K³) per iteration, and a permutation of D where b < D.
    Needs: the whole stack.

    Args:
      f: malicious clients to expect.
      iterations: how often coordinates are drawn.
      coordinates: b, how many of them; all where there are no more.
      factor: c, how many times f to leave out each time.

    Raises:
      ScenarioError: when no more than 2·f, or ⌊c·f⌋, clients can report (a round with fewer survivors is skipped).

    References:
      Shejwalkar, Houmansadr 2021, Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for
      Federated Learning, NDSS, Algorithm 2.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "divide_and_conquer", "f": 1}, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """
    bad = math.floor(factor * f + 1e-9)

    def apply(updates: Updates, state: Tree, context: Context):
        K = updates.samples.shape[0]
        usable = updates.arrived & tree.finite_rows(updates.delta, K)
        chosen = drawn(context.key, updates.delta, K, iterations, coordinates)
        kept = never_bad(updates.delta, usable, chosen, bad)
        info = selected(kept, updates, context)
        return tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype)), state, info

    return Rule(apply=apply, least=max(2 * f, bad) + 1)


def drawn(
    key: Key[Array, ""], stacked: Tree, K: int, iterations: int, coordinates: int
) -> Int[Array, "T b"]:
    """Different coordinates for every iteration, numbered through the leaves."""
    D = sum(leaf.size // K for leaf in jax.tree.leaves(stacked))
    if coordinates >= D:
        return jnp.tile(jnp.arange(D), (iterations, 1))
    keys = jax.random.split(key, iterations)
    return jax.lax.map(lambda key: jax.random.permutation(key, D)[:coordinates], keys)


def never_bad(
    stacked: Tree, usable: Bool[Array, " K"], chosen: Int[Array, "T b"], bad: int
) -> Bool[Array, " K"]:
    """Rows that are not among the `bad` largest along the top direction of any of the sets of coordinates."""

    def outside(kept, coordinates):
        columns = jnp.where(usable[:, None], at_coordinates(stacked, coordinates), 0)
        largest = jnp.max(jnp.abs(columns), initial=0)
        columns = columns * jnp.where(
            largest > 0, 1 / jnp.where(largest > 0, largest, 1), 0
        )  # squares do not overflow
        _, off = dominant(tree.gram(columns, usable))
        score = jnp.where(usable, off * off, jnp.inf)
        rank = jnp.argsort(jnp.argsort(score, stable=True))
        return kept & (rank < jnp.sum(usable) - bad), None

    return jax.lax.scan(outside, usable, chosen)[0]


def at_coordinates(stacked: Tree, coordinates: Int[Array, " b"]) -> Float[Array, "K b"]:
    """These columns of a stack, whose leaves are one after another."""
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(stacked) if leaf.size]
    dtype = jnp.result_type(jnp.float32, *leaves)
    columns, before = jnp.zeros((leaves[0].shape[0], len(coordinates)), dtype), 0
    for leaf in leaves:
        place = coordinates - before
        within = (place >= 0) & (place < leaf.shape[1])
        columns = jnp.where(
            within, leaf[:, jnp.clip(place, 0, leaf.shape[1] - 1)].astype(dtype), columns
        )
        before += leaf.shape[1]
    return columns
