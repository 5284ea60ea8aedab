"""What arrives of a round's clients, for whoever keeps it (`checkpoint.updates`).

The program is separate from the training and changes no bit of it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server_records import (
    Messages,
    RoundStart,
    contexts_of,
    sent_updates,
)
from fedsim.fleet import RoundPlan
from fedsim.tree import Tree
from fedsim.types import Client, Codec, Rule, Shared

# What rules may weigh rows by, besides the rows: fields of `Updates`.
COLUMNS = ("arrived", "samples", "count", "loss", "steps", "effort", "age")


class RoundUpdates(NamedTuple):
    """The updates of a round, as NumPy arrays, one row for each of its K clients.

    Attributes:
      round: its number, from 1.
      clients: their ids `[K]`, in the order in which the server adds them.
      weights: what the rule weighs their rows by `[K]`, behind the server's stages; 0: no usable
        message arrived.
      params_before: the server's parameters before the round.
      params_after: those after it.
      updates: what the server received, behind attacks and codecs: a client's parameters minus
        those that it was sent `[K, ...]`, of the leaves that clients send; 0 where nothing arrived.
      stats_before: running statistics before the round; without leaves where the model has none.
      stats: those that arrived `[K, ...]`.
      columns: what rules may weigh by, besides the rows `[K]`: `samples`, `steps` ...
    """

    round: int
    clients: np.ndarray
    weights: np.ndarray
    params_before: Tree
    params_after: Tree
    updates: Tree
    stats_before: Tree
    stats: Tree
    columns: dict[str, np.ndarray]


class Arrived(NamedTuple):
    """Messages behind the wire, by slot."""

    updates: Tree  # [rows, ...]
    stats: Tree  # [rows, ...]
    weights: Float[Array, " rows"]
    columns: dict[str, Array]  # [rows] each


class Recording:
    """What arrives at a server."""

    def __init__(self, pipeline: Pipeline):
        self.pipeline = pipeline

    @jitted
    def arrived(self, messages: Messages, start: RoundStart) -> Arrived:
        """Return the messages of a block, or of a round, behind the wire."""
        contexts = contexts_of(self.pipeline, start, messages.slots)
        rows = self.pipeline.process(sent_updates(messages), start.server.state, contexts)
        arrived = rows.arrived
        sent = (arrived.delta, arrived.stats)
        updates, stats = tree.select(arrived.arrived, sent, jax.tree.map(jnp.zeros_like, sent))
        return Arrived(
            updates=updates,
            stats=stats,
            weights=self.pipeline.rule.weights(rows.staged),
            columns={name: getattr(arrived, name) for name in COLUMNS},
        )


def round_updates(
    cohort: RoundPlan, blocks: Sequence[Arrived], before: Shared, after: Shared
) -> RoundUpdates:
    """Return what arrived in a round, on the host."""

    def of_cohort(*by_block: Any) -> np.ndarray:  # [block, ...] each -> [K, ...]
        rows = np.concatenate([np.asarray(rows) for rows in by_block])
        return rows[: len(cohort.ids)]

    arrived = jax.tree.map(of_cohort, *blocks)
    before = jax.tree.map(np.asarray, {name: before[name] for name in ("params", "stats")})
    return RoundUpdates(
        round=cohort.round,
        clients=np.asarray(cohort.ids),
        weights=arrived.weights,
        params_before=before["params"],
        params_after=jax.tree.map(np.asarray, after["params"]),
        updates=arrived.updates,
        stats_before=before["stats"],
        stats=arrived.stats,
        columns=arrived.columns,
    )


def why_unrecorded(client: Client, rule: Rule | None, codec: Codec | None) -> str:
    """Return why a server does not receive an update of every client; empty where it does.

    Args:
      rule: the server's rule; nodes of a graph have none.
    """
    if client.not_federated:
        return "clients send no messages"
    if client.gossip is not None:
        return "the nodes of a graph have no server"
    if client.bank is not None:
        return "the server has several models"
    if rule is not None and rule.adapter.merges:
        return f"{rule.name} moves frozen weights, which clients send nothing of"
    if codec is not None and codec.linear:
        return f"with {codec.name} the server decodes their sum alone"
    return ""
