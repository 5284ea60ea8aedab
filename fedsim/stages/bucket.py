"""Bucketing: means of a few updates in place of updates."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.compose import alias, stage
from fedsim.tree import Tree
from fedsim.types import Context, Stage, Updates

alias(bucketing="bucket", s_resampling="bucket")


@stage
def bucket(size: Annotated[int, Ge(1)] = 2) -> Stage:
    """Replaces the updates by means of `size` random updates.

    The m reporting clients are put in random order and cut into ⌈m/s⌉ buckets of s; the last one
    may be smaller. The b-th row that reports becomes the mean of bucket b; the other rows count as
    if they had not reported. A rule behind it takes the same f as before, and its condition must
    hold for ⌈m/s⌉ rows. The remaining rows keep their sample counts, so put a uniform rule behind
    it; model statistics are averaged over these rows alone, and `malicious_kept` has no meaning.

    Resists: nothing by itself; it brings updates closer together for a robust rule behind it.
    Cost: O(K·D).
    Needs: the whole stack.

    Args:
      size: s; 1 only changes the order. Where f of m clients are malicious, s·f/m must be below the
        share that the rule tolerates.

    References:
      Karimireddy, He, Jaggi 2022, Byzantine-Robust Learning on Heterogeneous Datasets via
      Bucketing, arXiv:2006.09365, Algorithm 1.

    >>> import fedsim
    >>> links = [{"kind": "bucket", "size": 4}, "median"]
    >>> round(fedsim.aggregate(links, [[0.0], [1.0], [2.0], [9.0]]).item(), 3)
    3.0
    """

    def apply(updates: Updates, state: Tree, context: Context):
        # Present rows in a random order, then the others; a draw depends on the client's id alone.
        draw_of = lambda id: jax.random.uniform(jax.random.fold_in(context.key, id))
        draw = jnp.where(updates.arrived, jax.vmap(draw_of)(context.ids), jnp.inf)
        order = jnp.argsort(draw, stable=True)
        means, is_bucket = bucketed(updates.delta, updates.arrived, order, size)
        delta = tree.select(is_bucket, means, updates.delta)
        return updates._replace(delta=delta, arrived=is_bucket), state, {}

    return Stage(apply=apply)


def bucketed(
    stacked: Tree, present: Bool[Array, " K"], order: Int[Array, " K"], size: int
) -> tuple[Tree, Bool[Array, " K"]]:
    """Return the stack with the mean of bucket b in the b-th present row; which rows these are."""
    K = present.shape[0]
    m = jnp.sum(present, dtype=jnp.int32)
    buckets = -(-m // size)
    slots = jnp.argsort(~present, stable=True)  # of the first, second ... present row

    def add(i, total):
        row = order[i]
        b = slots[i // size]
        return jax.tree.map(lambda t, x: t.at[b].add(jnp.where(i < m, x[row], 0)), total, stacked)

    total = lax.fori_loop(0, K, add, tree.zeros_like(stacked))

    rank = jnp.cumsum(present) - 1
    members = jnp.clip(m - rank * size, 1, size).astype(jnp.result_type(*jax.tree.leaves(stacked)))
    means = jax.tree.map(lambda t: t / tree.along(members, t).astype(t.dtype), total)
    return means, present & (rank < buckets)
