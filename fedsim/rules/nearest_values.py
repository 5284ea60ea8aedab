"""The mean of the values that are nearest to a centre, in every coordinate."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.rules.sorting import by_sorted_columns
from fedsim.tree import Tree


def mean_of_nearest(
    stacked: Tree,
    centre: Tree,
    present: Bool[Array, " K"],
    count: Int[Array, ""],
    order: Int[Array, " K"] | None = None,
) -> Tree:
    """Of every coordinate the mean of the `count` values of present rows that are nearest to `centre`.

    Of values at the same distance, those of the first rows in `order` count (in that of the stack, if left out). A value
    that is not finite is farther than all others.
    Nothing to count gives zero. Memory: the stack twice.
    """
    away = jax.tree.map(lambda x, c: jnp.abs(x - c), stacked, centre)
    farthest = jnp.clip(count - 1, 0, present.shape[0] - 1)
    reach = by_sorted_columns(
        lambda ranks: ranks.at(farthest), away, present
    )  # distance of the last one that counts

    def nearer(k, inside):
        return jax.tree.map(lambda n, a, r: n + (present[k] & (a[k] < r)), inside, away, reach)

    def add(i, sums):
        total, ties = sums
        k = i if order is None else order[i]
        tied = jax.tree.map(
            lambda a, r, left: present[k] & (a[k] == r) & (left > 0), away, reach, ties
        )
        taken = jax.tree.map(lambda a, r, t: present[k] & (a[k] < r) | t, away, reach, tied)
        total = jax.tree.map(lambda a, x, t: a + jnp.where(t, x[k], 0), total, stacked, taken)
        return total, jax.tree.map(jnp.subtract, ties, tied)

    K, none = present.shape[0], jax.tree.map(lambda r: jnp.zeros(r.shape, jnp.int32), reach)
    inside = lax.fori_loop(0, K, nearer, none)
    ties = jax.tree.map(
        lambda n: count - n, inside
    )  # how many of those at this very distance count
    total, _ = lax.fori_loop(0, K, add, (tree.zero_row(stacked), ties))
    return jax.tree.map(lambda a: tree.divide(a, jnp.maximum(count, 0).astype(a.dtype)), total)
