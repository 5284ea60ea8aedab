"""The best of all subsets of the clients that reported, less f of them."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

MOST = 200_000  # subsets to go through in a round: some seconds


def most_rows(f: int) -> int | None:
    """The largest m with C(m, f) ≤ `MOST`; None where any m will do.

    >>> most_rows(5), math.comb(32, 5)
    (31, 201376)
    >>> most_rows(10**9)
    2000000000
    """
    if f == 0:
        return None
    m = 2 * f
    if f >= 10:  # C(2f + 1, f) is at least C(21, 10), which is more
        return m
    while math.comb(m + 1, f) <= MOST:
        m += 1
    return m


def mean_of_best_subset(
    cost: Callable[[Bool[Array, "B K"], Float[Array, "K K"]], Float[Array, " B"]], f: int
) -> Rule:
    """The rule that averages the m−f clients of least cost.

    Args:
      cost: (subsets `[B, K]`, squared distances of all pairs `[K, K]`) -> what each costs `[B]`.
      f: clients to leave out.
    """

    def apply(updates: Updates, state: Tree, context: Context):
        present = updates.arrived
        distance = tree.squared_distances(updates.delta, present)
        kept = best_subset(lambda kept: cost(kept, distance), present, f)
        info = selected(kept, updates, context)
        return tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype)), state, info

    return Rule(apply=apply, least=2 * f + 1, most=most_rows(f))


def best_subset(
    cost: Callable[[Bool[Array, "B K"]], Float[Array, " B"]], present: Bool[Array, " K"], f: int
) -> Bool[Array, " K"]:
    """The m−f of the m present rows with the least cost; the first in lexicographic order of those that cost the same.

    The sets of f rows to leave out are counted through by their colexicographic rank, with the last row first: this is
    the lexicographic order of what is kept, and no table of subsets is held. A cost counts as less where it is by more
    than rounding.
    """
    K, m = present.shape[0], jnp.sum(present)
    table = np.array(
        [[min(math.comb(n, i), 2**31 - 1) for n in range(K + 1)] for i in range(f + 1)], np.int32
    )
    most = int(table[f, min(K, most_rows(f) or K)])
    size = max(1, min(most, 2**19 // K**2))
    slots = jnp.argsort(~present, stable=True)

    def kept(rank: Int[Array, ""]) -> Bool[Array, " K"]:
        left = present
        for i in range(f, 0, -1):
            place = jnp.sum(jnp.asarray(table[i]) <= rank) - 1  # the largest n with C(n, i) ≤ rank
            rank = rank - jnp.asarray(table[i])[place]
            left = left.at[slots[jnp.clip(m - 1 - place, 0, K - 1)]].set(False)
        return left

    total = jnp.asarray(table[f])[m]
    total = jnp.where(total > most, 0, total)

    def search(state):
        first, least, rank = state
        ranks = first + jnp.arange(size, dtype=jnp.int32)
        costs = cost(jax.vmap(kept)(ranks))
        costs = jnp.where((ranks < total) & ~jnp.isnan(costs), costs, jnp.inf)
        tolerance = 1 + 256 * jnp.finfo(costs.dtype).eps
        place = jnp.argmax(costs <= jnp.min(costs) * tolerance)
        better = jnp.min(costs) * tolerance < least
        return (
            first + size,
            jnp.where(better, costs[place], least),
            jnp.where(better, ranks[place], rank),
        )

    zero = jnp.zeros((), jnp.int32)
    start = jnp.full((), jnp.inf, jax.eval_shape(cost, jax.ShapeDtypeStruct((1, K), bool)).dtype)
    _, _, rank = lax.while_loop(lambda state: state[0] < total, search, (zero, start, zero))
    return kept(rank)
