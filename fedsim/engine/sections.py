"""The sections of the shared variables that the rule does not touch: `stats` and `aux`, summed beside it and closed with it."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Task, Updates


class Sections(NamedTuple):
    """Sums over what arrived."""

    stats: Tree
    weight: Float[Array, ""]  # Σ of the rule's weights
    aux: dict[str, Tree]
    arrived: Float[Array, ""]  # messages
    lr_sum: tuple = ()  # Σ over the messages of the learning rates of their steps, where the method asks


def own_reducers(client: Client) -> dict:
    """Those of `aux` that a method brings along; they may ask for the learning rates."""
    return {name: how for name, how in client.reduce.items() if callable(how)}


def nothing(updates: Updates, client: Client) -> Sections:
    """The sums before the first row."""
    stats, aux = tree.zero_row((updates.stats, updates.aux))
    zero = jnp.zeros_like(updates.samples[0])
    return Sections(stats, zero, aux, zero, (zero,) if own_reducers(client) else ())


def more(
    total: Sections, kept: Updates, arrived: Updates, w: Float[Array, " K"], lr_sum: Array
) -> Sections:
    """More rows, `stats` weighted by `w`; `arrived` are the rows before the server's own stages: `aux` counts all of them."""
    present = arrived.arrived.astype(kept.samples.dtype)
    paces = (lr_sum,) if total.lr_sum else ()
    stats, weight = tree.fold((total.stats, total.weight), (kept.stats, jnp.ones_like(w)), w)
    aux, count, pace = tree.fold(
        (total.aux, total.arrived, total.lr_sum), (arrived.aux, present, paces), present
    )
    return Sections(stats, weight, aux, count, pace)


def closed(
    total: Sections,
    old: Tree,
    aggregate: Tree,
    skipped: Bool[Array, ""],
    client: Client,
    task: Task,
    N: Array,
) -> dict[str, Tree]:
    """Both sections after the round.

    `aux` moves by what arrived also in a skipped round: the clients that sent it have moved their memory as well.

    Args:
      total: of the round.
      old: the shared variables that were sent.
      aggregate: what the rule returned, before the optimisers behind it.
      skipped: whether too little arrived for a step.
      client: whose reducers they are.
      task: of its own reducers.
      N: clients that can take part.
    """
    whole = {
        "mean": lambda sum: tree.divide(sum, total.arrived),
        "sum_over_N": lambda sum: tree.scale(sum, 1 / N),
    }
    sent = {
        name: tree.add(old["aux"][name], whole[str(client.reduce[name])](sum))
        for name, sum in total.aux.items()
    }
    aux = {**old["aux"], **sent}
    if reducers := own_reducers(client):
        pace = tree.divide(total.lr_sum[0], total.arrived)
        reduced = {
            name: how(task, aux[name], old, aggregate, pace) for name, how in reducers.items()
        }
        aux |= tree.select(
            skipped | (total.arrived == 0), {name: aux[name] for name in reduced}, reduced
        )
    silent = skipped | (
        total.weight == 0
    )  # a round that was not skipped, and in which nobody reported
    return {
        "stats": tree.select(silent, old["stats"], tree.divide(total.stats, total.weight)),
        "aux": aux,
    }
