"""What passes between the server's programs in a round."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.engine.keys import round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memory
from fedsim.engine.own_samples import OwnSamples, server_loss
from fedsim.engine.pipeline import Contexts, Pipeline
from fedsim.engine.sections import Sections
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Context, Flown, Info, Shared, Task, Updates


class ServerState(NamedTuple):
    """What the server sends, and what it remembers."""

    shared: Shared
    state: dict[str, Tree]  # of wire, stages, rule and optimisers


class RoundStart(NamedTuple):
    """Which round of which run, and the server that begins it."""

    server: ServerState  # behind its broadcast; after a pass at the global model, with its mean in `aux`
    root: Key[Array, ""]  # of all randomness of the run
    round: Int[Array, ""] | int
    clients: Float[Array, ""]  # that can take part: those with samples
    samples: Float[Array, ""]  # of all of them together
    # clients that a round draws on average, and their samples; 0 where nobody knows
    expected: Float[Array, "2"]
    own: OwnSamples | None = None  # of the server, where the rule asks for losses on them
    reference: Tree | None = None  # the server's own update, where the rule asks for it
    flown: Flown | None = None  # of the only client, where the schedule mixes models


class Messages(NamedTuple):
    """What the clients of a block send, or of a whole round, by slot, on its way to the wire."""

    rows: Rows  # as the lanes wrote them
    slots: Slots  # what was planned of these clients
    remembered: Tree  # what stages remember of them, before the round
    # at the model that was sent, where a pass at the global model gave it
    loss: Float[Array, " rows"] | None = None


class Counts(NamedTuple):
    """Numbers of clients."""

    usable: Int[Array, ""]  # whose rows the rule may use
    nonfinite: Int[Array, ""]
    reported: Int[Array, ""]


class TrainStats(NamedTuple):
    """Losses of a block's clients while they trained, for the round's row."""

    loss: Float[Array, " block"]  # Σ batch loss · valid rows
    seen: Float[Array, " block"]  # Σ valid rows


class Closed(NamedTuple):
    """What the rule and the sums beside it give at the end of a round."""

    row: Tree | None  # what the rule made of a stack; None where blocks are summed
    aggregate: Tree  # what becomes of it before the optimisers
    state: dict[str, Tree]
    sections: Sections
    counts: Counts
    memory: Memory
    info: Info  # what links report
    bytes: Int[Array, " rows"]


class Outcome(NamedTuple):
    """What a round did, in numbers that the host reads later."""

    reported: Int[Array, ""]
    nonfinite: Int[Array, ""]
    usable: Int[Array, ""]
    skipped: Bool[Array, ""]  # too little arrived: model and optimisers stay as they were
    finite: Bool[Array, ""]  # are the shared params
    info: Info  # what links report, as `krum/malicious_kept`
    bytes: Int[Array, " rows"]  # of what every slot sent, lost messages included


class Served(NamedTuple):
    """The next server of a run, and how it came to be."""

    server: ServerState
    memory: Memory
    outcome: Outcome
    row: Tree | None  # as `Closed.row`


def contexts_of(pipeline: Pipeline, task: Task, at: RoundStart, slots: Slots) -> Contexts:
    """What the links of a pipeline may know beside the rows of these slots."""
    shared = at.server.shared

    def context(phase) -> Context:
        return Context(
            key=round_key(at.root, at.round, phase),
            round=at.round,
            N=at.clients,
            lr=slots.work.lr[0],
            shared={**shared, "params": pipeline.travelling(shared)},
            ids=slots.work.id,
            malicious=slots.work.malicious,
            samples=at.samples,
            expected=at.expected[0],
            expected_samples=at.expected[1],
            reference=at.reference,
            share=slots.share,
            server_loss=None if at.own is None else server_loss(task, shared, at.own),
            flown=at.flown,
        )

    return context


def received(messages: Messages) -> Updates:
    """The stack as the wire finds it."""
    slots, sent = messages.slots, messages.rows.message
    K = len(slots.weight)
    size = tree.payload_bytes((sent.delta, sent.stats, sent.aux)) // K
    return Updates(
        delta=sent.delta,
        stats=sent.stats,
        aux=sent.aux,
        arrived=slots.weight > 0,
        samples=slots.work.samples,
        count=slots.count,
        loss=jnp.full_like(slots.weight, jnp.nan) if messages.loss is None else messages.loss,
        steps=slots.work.steps.astype(slots.weight.dtype),
        effort=sent.effort,
        memory=messages.remembered,
        bytes=jnp.full(K, size, jnp.int32),
        age=slots.age,
    )


def train_stats(messages: Messages, drop: bool) -> TrainStats:
    """A client whose message will be dropped as not finite has no say in the mean loss either."""
    rows, sent = messages.rows, messages.rows.message
    finite = tree.finite_rows((sent.delta, sent.stats, sent.aux), rows.loss.shape[0])
    counts = (messages.slots.work.steps > 0) & (finite | (not drop))
    return TrainStats(jnp.where(counts, rows.loss, 0), jnp.where(counts, rows.seen, 0))


def count_rows(kept: Updates, bad: Array, slots: Slots) -> Counts:
    """Of rows behind all stages, of those that were not finite, of those planned to report."""
    count = lambda mask: jnp.sum(mask, dtype=jnp.int32)
    return Counts(
        usable=count(kept.arrived), nonfinite=count(bad), reported=count(slots.weight > 0)
    )


def placed_bytes(
    total: Int[Array, " rows"], arrived: Updates, slots: Slots, first: Int[Array, ""] | int
) -> Int[Array, " rows"]:
    """Bytes by slot, with those from slot `first` on; slots beyond the cohort send nothing."""
    sent = jnp.where(slots.count > 0, arrived.bytes, 0)
    return jax.lax.dynamic_update_slice_in_dim(total, sent, first, 0)


def is_finite(params: Tree) -> Bool[Array, ""]:
    """Whether a tree is."""
    return functools.reduce(
        jnp.logical_and, (jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    )


def mean_losses(rows: Rows) -> Float[Array, " block"]:
    """Mean loss of every client over its batches."""
    return rows.loss / jnp.maximum(rows.seen, 1)
