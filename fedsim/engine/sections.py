"""The sections of the shared variables that the rule does not touch: `stats` and `aux`.

They are summed with the messages, and move when the rule has made its aggregate.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.engine.moments import about_mean
from fedsim.tree import Tree
from fedsim.types import Client, Reducer, Updates


class SectionSums(NamedTuple):
    """Sums over the messages of a round."""

    stats: Tree  # of leaves that are no floats, those of the first message that counts
    weight: Float[Array, ""]  # Σ of the rule's weights
    aux: dict[str, Tree]
    arrived: Float[Array, ""]  # messages
    # Σ over the messages of the learning rates of their steps; only for methods with reducers
    lr_sum: tuple = ()


def reducers_of(client: Client) -> dict[str, Reducer]:
    """Return the method's own reducers of `aux`, which may ask for the learning rates."""
    return {name: reduce for name, reduce in client.reduce.items() if callable(reduce)}


def zero(updates: Updates, client: Client) -> SectionSums:
    """Return the sums over no rows."""
    stats, aux = tree.zero_row((updates.stats, updates.aux))
    nothing = jnp.zeros_like(updates.samples[0])
    lr_sum = (nothing,) if reducers_of(client) else ()
    return SectionSums(stats=stats, weight=nothing, aux=aux, arrived=nothing, lr_sum=lr_sum)


def add_rows(
    sums: SectionSums,
    staged: Updates,
    arrived: Updates,
    weights: Float[Array, " K"],
    lr_sum: Float[Array, " K"],
) -> SectionSums:
    """Add the rows of a block.

    Args:
      sums: the sums over the rows before.
      staged: the rows behind the server's stages; their `stats` count by `weights`.
      arrived: the rows before these stages; `aux` counts all of them.
      lr_sum: for each row, the sum of its learning rates.
    """
    present = arrived.arrived.astype(staged.samples.dtype)
    lr_sums = (lr_sum,) if sums.lr_sum else ()

    sum_so_far, first = _apart(sums.stats)
    averaged, taken = _apart(staged.stats)
    summed, weight = tree.fold(
        (sum_so_far, sums.weight), (averaged, jnp.ones_like(weights)), weights
    )
    counts = weights > 0
    has_first = (sums.weight > 0) | ~jnp.any(counts)
    first = tree.select(has_first, first, tree.take(taken, jnp.argmax(counts)))
    stats = tree.fill_leaves(summed, first)
    aux, count, lr_total = tree.fold(
        (sums.aux, sums.arrived, sums.lr_sum), (arrived.aux, present, lr_sums), present
    )
    return SectionSums(stats=stats, weight=weight, aux=aux, arrived=count, lr_sum=lr_total)


def aux_after(sums: SectionSums, aux: dict[str, Tree], client: Client, N: Array) -> dict[str, Tree]:
    """Return `aux` moved by what the clients sent.

    It moves in a skipped round as well, because the memory of those clients has moved too.

    Args:
      client: the method, which says how each entry is reduced.
      N: clients that can take part.
    """
    moved = {}
    for name, total in sums.aux.items():
        if client.reduce[name] == "mean":
            step = tree.divide(total, sums.arrived)
        else:  # "sum_over_N"
            step = tree.scale(total, 1 / N)
        moved[name] = tree.add(aux[name], step)
    return {**aux, **moved}


def stats_after(sums: SectionSums, stats: Tree, skipped: Bool[Array, ""], client: Client) -> Tree:
    """Return the mean of the statistics, or those of all; those before where nothing counts.

    Counters, masks and indices have no mean: they are those of the first message that counts.
    Clients that train alone send none.
    """
    if not jax.tree.leaves(sums.stats):
        return stats
    # Nobody may report in a round that is not skipped.
    unchanged = skipped | (sums.weight == 0)
    averaged, first = _apart(sums.stats)
    mean = tree.divide(averaged, sums.weight)
    if client.travel.stats == "pooled":
        mean = about_mean(mean)
    return tree.select(unchanged, stats, tree.fill_leaves(mean, first))


def mixed_stats(before: Tree, stats: Tree, share: Float[Array, ""]) -> Tree:
    """Return the statistics moved towards a client's by a share, where a schedule mixes models."""
    averaged, first = _apart(stats)
    averaged_before, _ = _apart(before)
    moved = tree.scale(tree.subtract(averaged, averaged_before), share)
    return tree.fill_leaves(tree.add(averaged_before, moved), first)


def _apart(stats: Tree) -> tuple[Tree, Tree]:
    """Return the leaves that have a mean, the floats, and the others; None where they are not."""
    is_float = jax.tree.map(lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating), stats)
    averaged = jax.tree.map(lambda leaf, is_float: leaf if is_float else None, stats, is_float)
    others = jax.tree.map(lambda leaf, is_float: None if is_float else leaf, stats, is_float)
    return averaged, others
