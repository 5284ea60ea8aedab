"""The best of all subsets that leave out f of the clients that reported."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

MAX_SUBSETS = 200_000  # to evaluate in a round: some seconds


def most_rows(f: int) -> int | None:
    """The largest m with C(m, f) ≤ `MAX_SUBSETS`; None if any m will do.

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
    while math.comb(m + 1, f) <= MAX_SUBSETS:
        m += 1
    return m


def mean_of_best_subset(
    cost: Callable[[Bool[Array, "B K"], Float[Array, "K K"]], Float[Array, " B"]], f: int
) -> Rule:
    """Return the rule that averages the m−f clients of least cost.

    Args:
      cost: (subsets `[B, K]`, squared distances of all pairs `[K, K]`) -> the cost of each `[B]`.
    """

    def apply(updates: Updates, state: Tree, context: Context):
        present = updates.arrived
        distance = tree.squared_distances(updates.delta, present)
        accepted = best_subset(lambda subsets: cost(subsets, distance), present, f)
        info = selection_report(accepted, updates, context)
        mean = tree.weighted_mean(updates.delta, accepted.astype(updates.samples.dtype))
        return mean, state, info

    return Rule(apply=apply, least=2 * f + 1, most=most_rows(f))


def best_subset(
    cost: Callable[[Bool[Array, "B K"]], Float[Array, " B"]], present: Bool[Array, " K"], f: int
) -> Bool[Array, " K"]:
    """The m−f of the m present rows with the least cost; of ties, the first in lexicographic order.

    The sets of f rows to leave out are enumerated by their colexicographic rank, with the last row
    first: this is the lexicographic order of the rows that remain, and needs no table of subsets. A
    cost is less only where it is less by more than rounding.

    Args:
      cost: subsets `[B, K]` -> the cost of each `[B]`.
    """
    K = present.shape[0]
    m = jnp.sum(present)
    table = _binomials(f, K)
    most = int(table[f, min(K, most_rows(f) or K)])
    size = max(1, min(most, 2**19 // K**2))  # subsets of a batch
    slots = jnp.argsort(~present, stable=True)

    def subset(rank: Int[Array, ""]) -> Bool[Array, " K"]:
        remaining = present
        for i in range(f, 0, -1):
            n = jnp.sum(jnp.asarray(table[i]) <= rank) - 1  # the largest n with C(n, i) ≤ rank
            rank = rank - jnp.asarray(table[i])[n]
            remaining = remaining.at[slots[jnp.clip(m - 1 - n, 0, K - 1)]].set(False)
        return remaining

    total = jnp.asarray(table[f])[m]
    total = jnp.where(total > most, 0, total)

    def search(state):
        first, least, rank = state
        ranks = first + jnp.arange(size, dtype=jnp.int32)
        costs = cost(jax.vmap(subset)(ranks))
        costs = jnp.where((ranks < total) & ~jnp.isnan(costs), costs, jnp.inf)

        tolerance = 1 + 256 * jnp.finfo(costs.dtype).eps
        best = jnp.argmax(costs <= jnp.min(costs) * tolerance)
        better = jnp.min(costs) * tolerance < least
        least = jnp.where(better, costs[best], least)
        rank = jnp.where(better, ranks[best], rank)
        return first + size, least, rank

    zero = jnp.zeros((), jnp.int32)
    dtype = jax.eval_shape(cost, jax.ShapeDtypeStruct((1, K), bool)).dtype
    start = (zero, jnp.full((), jnp.inf, dtype), zero)
    _, _, rank = lax.while_loop(lambda state: state[0] < total, search, start)
    return subset(rank)


def _binomials(f: int, K: int) -> np.ndarray:
    """Return C(n, i) for i ≤ f and n ≤ K `[f + 1, K + 1]`, at most the largest int32."""
    table = np.empty((f + 1, K + 1), np.int32)
    for i in range(f + 1):
        for n in range(K + 1):
            table[i, n] = min(math.comb(n, i), 2**31 - 1)
    return table
