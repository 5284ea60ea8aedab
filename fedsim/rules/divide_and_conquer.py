"""Divide and conquer: outliers along the top direction of random coordinates."""

import math
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.eigen import dominant
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.tree.selection import random_indices
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

    `iterations` times: v is the top right singular vector of the m updates, restricted to b random
    coordinates and centred; the ⌊c·f⌋ updates with the largest ⟨x_i − x̄, v⟩² are bad.  agg = the
    mean of those that never were (zero if there is none). Ties keep the lowest index. Sample counts
    and updates that are not finite are ignored.

    Resists: f malicious clients, 2·f < m.
    Cost: O(K²·b + K³) per iteration, and O(D) for the draws where b < D.
    Needs: the whole stack.

    Args:
      f: malicious clients to expect.
      iterations: how often coordinates are drawn.
      coordinates: b, how many of them; all where the model has fewer.
      factor: c; each iteration leaves out c times f updates.

    Raises:
      ScenarioError: when no more than 2·f, or ⌊c·f⌋, clients can report (a round with fewer
        survivors is skipped).

    References:
      Shejwalkar, Houmansadr 2021, Manipulating the Byzantine: Optimizing Model Poisoning Attacks
      and Defenses for Federated Learning, NDSS, Algorithm 2.

    >>> import fedsim
    >>> rule = {"kind": "divide_and_conquer", "f": 1}
    >>> fedsim.aggregate(rule, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """
    bad = math.floor(factor * f + 1e-9)

    def apply(updates: Updates, state: Tree, context: Context):
        K = updates.samples.shape[0]
        sets = drawn(context.key, updates.delta, K, iterations, coordinates)
        most = min(iterations * bad, K)

        # Where a mean is finite, so are its rows, and only those that it leaves out need a look.
        # Where one of all rows is not finite, the second attempt is without it.
        def attempt(before: Attempt) -> Attempt:
            accepted = never_bad(updates.delta, before.usable, sets, bad)
            mean = tree.weighted_mean(updates.delta, accepted.astype(updates.samples.dtype))
            left_out = before.usable & ~accepted
            index = jnp.argsort(~left_out, stable=True)[:most]
            rows = tree.take(updates.delta, index)
            fine = jnp.all(tree.finite_rows(rows, most) | ~left_out[index])
            fine &= tree.finite_rows(jax.tree.map(lambda leaf: leaf[None], mean), 1)[0]
            fine &= jnp.sum(left_out) <= most  # more are left out where products are NaN
            usable = jax.lax.cond(
                fine,
                lambda: before.usable,
                lambda: updates.arrived & tree.finite_rows(updates.delta, K),
            )
            return Attempt(usable, accepted, mean, fine, before.number + 1)

        first = Attempt(
            usable=updates.arrived,
            accepted=jnp.zeros_like(updates.arrived),
            mean=tree.zero_row(updates.delta),
            fine=jnp.zeros((), bool),
            number=jnp.zeros((), jnp.int32),
        )
        unfinished = lambda attempt: ~attempt.fine & (attempt.number < 2)
        last = jax.lax.while_loop(unfinished, attempt, first)
        return last.mean, state, selection_report(last.accepted, updates, context)

    return Rule(apply=apply, least=max(2 * f, bad) + 1)


class Attempt(NamedTuple):
    """What came of an attempt, and the rows for the next one.

    Attributes:
      usable: rows to judge.
      accepted: those that count.
      mean: their mean.
      fine: whether all rows that it judged are finite.
      number: attempts so far.
    """

    usable: Bool[Array, " K"]
    accepted: Bool[Array, " K"]
    mean: Tree
    fine: Bool[Array, ""]
    number: Int[Array, ""]


def drawn(
    key: Key[Array, ""], stacked: Tree, K: int, iterations: int, coordinates: int
) -> Int[Array, "T b"]:
    """Draw different coordinates for every iteration, numbered through the leaves."""
    D = sum(leaf.size // K for leaf in jax.tree.leaves(stacked))
    if coordinates >= D:
        return jnp.tile(jnp.arange(D), (iterations, 1))
    keys = jax.random.split(key, iterations)
    return jax.lax.map(lambda key: random_indices(key, D, coordinates), keys)


def never_bad(
    stacked: Tree, usable: Bool[Array, " K"], sets: Int[Array, "T b"], bad: int
) -> Bool[Array, " K"]:
    """The rows that are not among the `bad` largest along the top direction of any set.

    Args:
      sets: the coordinates of every iteration.
      bad: how many rows an iteration leaves out.
    """

    def leave_out(accepted, coordinates):
        columns = jnp.where(usable[:, None], at_coordinates(stacked, coordinates), 0)

        # In units of the largest value, so that squares do not overflow.
        largest = jnp.max(jnp.abs(columns), initial=0)
        columns = columns * jnp.where(largest > 0, 1 / jnp.where(largest > 0, largest, 1), 0)

        _, off = dominant(tree.gram(columns, usable))
        score = jnp.where(usable, off * off, jnp.inf)
        rank = jnp.argsort(jnp.argsort(score, stable=True))
        return accepted & (rank < jnp.sum(usable) - bad), None

    return jax.lax.scan(leave_out, usable, sets)[0]


def at_coordinates(stacked: Tree, coordinates: Int[Array, " b"]) -> Float[Array, "K b"]:
    """The columns of a stack at these coordinates, which are numbered through the leaves."""
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(stacked) if leaf.size]
    dtype = jnp.result_type(jnp.float32, *leaves)
    columns = jnp.zeros((leaves[0].shape[0], len(coordinates)), dtype)
    first = 0
    for leaf in leaves:
        width = leaf.shape[1]
        index = coordinates - first
        within = (index >= 0) & (index < width)
        values = leaf[:, jnp.clip(index, 0, width - 1)].astype(dtype)
        columns = jnp.where(within, values, columns)
        first += width
    return columns
