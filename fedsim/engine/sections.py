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

    stats: Tree
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
      weights: the rule's weights.
      lr_sum: for each row, the sum of its learning rates.
    """
    present = arrived.arrived.astype(staged.samples.dtype)
    lr_sums = (lr_sum,) if sums.lr_sum else ()

    stats, weight = tree.fold(
        (sums.stats, sums.weight), (staged.stats, jnp.ones_like(weights)), weights
    )
    aux, count, lr_total = tree.fold(
        (sums.aux, sums.arrived, sums.lr_sum), (arrived.aux, present, lr_sums), present
    )
    return SectionSums(stats=stats, weight=weight, aux=aux, arrived=count, lr_sum=lr_total)


def aux_after(sums: SectionSums, aux: dict[str, Tree], client: Client, N: Array) -> dict[str, Tree]:
    """Return `aux` moved by what the clients sent.

    It moves in a skipped round as well, because the memory of those clients has moved too.

    Args:
      sums: the round's sums.
      aux: the entries before the round.
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

    Clients that train alone send none.
    """
    if not jax.tree.leaves(sums.stats):
        return stats
    # Nobody may report in a round that is not skipped.
    unchanged = skipped | (sums.weight == 0)
    mean = tree.divide(sums.stats, sums.weight)
    if client.stats == "pooled":
        mean = about_mean(mean)
    return tree.select(unchanged, stats, mean)
