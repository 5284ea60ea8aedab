"""The coordinate-wise mean of the values nearest to a centre."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.rules.sorting import by_sorted_columns
from fedsim.tree import Tree

ROWS = 8  # that are added in one pass over the columns


def mean_of_nearest(
    stacked: Tree,
    centre: Tree,
    present: Bool[Array, " K"],
    count: Int[Array, ""],
    order: Int[Array, " K"] | None = None,
) -> Tree:
    """Return the coordinate-wise mean of the `count` present values nearest to `centre`.

    A value that is not finite is farther than all others. Where nothing counts the mean is zero.
    Memory: the stack twice.

    Args:
      count: how many values count in every coordinate.
      order: values at the same distance count in this order of rows; default: that of the stack.
    """
    K = present.shape[0]
    distance = jax.tree.map(lambda x, c: jnp.abs(x - c), stacked, centre)

    # The distance of the last value that counts.
    last = jnp.clip(count - 1, 0, present.shape[0] - 1)
    reach = by_sorted_columns(lambda ranks: ranks.at(last), distance, present)

    def add_nearer(k, nearer):
        return jax.tree.map(lambda n, d, r: n + (present[k] & (d[k] < r)), nearer, distance, reach)

    # How many of the values at exactly this distance count.
    none = jax.tree.map(lambda r: jnp.zeros(r.shape, jnp.int32), reach)
    nearer = lax.fori_loop(0, K, add_nearer, none, unroll=ROWS)
    ties = jax.tree.map(lambda n: count - n, nearer)

    def add(i, sums):
        total, ties = sums
        k = i if order is None else order[i]
        is_tie = lambda d, r, left: present[k] & (d[k] == r) & (left > 0)
        tied = jax.tree.map(is_tie, distance, reach, ties)
        counts = jax.tree.map(lambda d, r, t: present[k] & (d[k] < r) | t, distance, reach, tied)
        total = jax.tree.map(lambda a, x, c: a + jnp.where(c, x[k], 0), total, stacked, counts)
        return total, jax.tree.map(jnp.subtract, ties, tied)

    total, _ = lax.fori_loop(0, K, add, (tree.zero_row(stacked), ties), unroll=ROWS)
    return jax.tree.map(lambda a: tree.divide(a, jnp.maximum(count, 0).astype(a.dtype)), total)
