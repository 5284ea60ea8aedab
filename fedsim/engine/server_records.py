"""Records that the server's programs take and return in a round."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.engine.frozen import bound
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memory
from fedsim.engine.pipeline import Contexts, Pipeline, RuleOutput
from fedsim.engine.sections import SectionSums
from fedsim.engine.shared_leaves import bytes_at_server, bytes_without_part
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Context, Info, Mixing, Shared, Updates


class ServerState(NamedTuple):
    """What the server sends, and what it remembers."""

    shared: Shared
    state: dict[str, Tree]  # of wire, stages, rule and optimisers


class RoundStart(NamedTuple):
    """The start of a run's round."""

    # after its broadcast; after a pass at the global model, with the mean of the pass in `aux`
    server: ServerState
    root: Key[Array, ""]  # the run's root key
    round: Int[Array, ""] | int
    clients: Float[Array, ""]  # clients that can take part: those with samples
    samples: Float[Array, ""]  # of all of them together
    # clients that a round draws on average, and their samples; 0: unknown
    expected: Float[Array, "2"]
    server_loss: Any = None  # makes `Context.server_loss` of a task and the shared variables
    reference: Tree | None = None  # the server's own update, where the rule asks for it
    # what the round's only client trained from, where the schedule mixes models
    mixing: Mixing | None = None
    edges: Tree | None = None  # who hears whom in the round, where clients have no server
    frozen: Tree = ()  # leaves of the model that nobody trains


class Messages(NamedTuple):
    """What the clients of a block, or of a round, send, by slot, before the wire."""

    rows: Rows  # as the lanes wrote them
    slots: Slots  # what was planned for these clients
    remembered: Tree  # what stages remembered of them before the round
    # losses at the global model, where a pass measured them
    loss: Float[Array, " rows"] | None = None


class Counts(NamedTuple):
    """Numbers of clients."""

    usable: Int[Array, ""]  # whose rows the rule may use
    nonfinite: Int[Array, ""]
    reported: Int[Array, ""]


class TrainStats(NamedTuple):
    """Losses of a block's clients while they trained."""

    loss: Float[Array, " block"]  # Σ batch loss · valid rows
    seen: Float[Array, " block"]  # Σ valid rows


class Aggregated(NamedTuple):
    """What a round's messages become, before the optimisers."""

    output: RuleOutput
    sections: SectionSums
    counts: Counts
    memory: Memory
    bytes: Int[Array, " rows"]  # of every slot's message, lost messages included


class RoundReport(NamedTuple):
    """What happened in a round, in numbers that the host reads later."""

    reported: Int[Array, ""]
    nonfinite: Int[Array, ""]
    usable: Int[Array, ""]
    skipped: Bool[Array, ""]  # too few messages arrived: model and optimisers did not change
    finite: Bool[Array, ""]  # whether the shared parameters are finite
    info: Info  # what links report, as `krum/malicious_kept`
    bytes: Int[Array, " rows"]  # of every slot's message, lost messages included


class ServerUpdate(NamedTuple):
    """The next server of a run, and what led to it."""

    server: ServerState
    memory: Memory
    report: RoundReport
    reduced: Tree | None  # what the rule returned for a stack; None where blocks are summed


def contexts_of(pipeline: Pipeline, start: RoundStart, slots: Slots) -> Contexts:
    """Return what the links of a pipeline may know besides the rows of these slots."""
    return contexts_at(
        pipeline,
        start,
        lr=slots.work.lr[0],
        ids=slots.work.id,
        malicious=slots.work.malicious,
        share=slots.share,
        marked=slots.marked,
        trained=_trained(pipeline, start.server.shared, slots),
    )


def contexts_at(pipeline: Pipeline, start: RoundStart, **of_rows: Any) -> Contexts:
    """Return `contexts_of` with these fields of `Context`, which are about the rows."""
    shared = start.server.shared

    def context(phase: Phase) -> Context:
        loss = None
        if start.server_loss is not None:
            assert pipeline.task is not None
            loss = start.server_loss(bound(pipeline.task, start.frozen, shared), shared)
        return Context(
            key=round_key(start.root, start.round, phase),
            round=start.round,
            N=start.clients,
            shared={**shared, "params": pipeline.shared_params(shared)},
            samples=start.samples,
            expected=start.expected[0],
            expected_samples=start.expected[1],
            reference=start.reference,
            server_loss=loss,
            mixing=start.mixing,
            scale=pipeline.scale,
            **of_rows,
        )

    return context


def _trained(pipeline: Pipeline, shared: Shared, slots: Slots) -> Tree | None:
    """Return which numbers the client of each slot has `[K, ...]`; None: all have all."""
    part = pipeline.client.travel.part
    if part is None:
        return None
    return jax.vmap(part.trains, in_axes=(None, 0))(pipeline.shared_params(shared), slots.work)


def sent_updates(messages: Messages) -> Updates:
    """Return the stack as the clients sent it, before the wire."""
    slots = messages.slots
    sent = messages.rows.message
    K = len(slots.weight)
    size = tree.payload_bytes((sent.delta, sent.stats, sent.aux)) // K
    arrived = slots.weight > 0
    loss = messages.loss
    if loss is None:
        loss = jnp.full_like(slots.weight, jnp.nan)
    return Updates(
        delta=sent.delta,
        stats=sent.stats,
        aux=sent.aux,
        arrived=arrived,
        samples=slots.work.samples,
        count=slots.count,
        loss=loss,
        steps=slots.work.steps.astype(slots.weight.dtype),
        effort=sent.effort,
        memory=messages.remembered,
        bytes=jnp.full(K, size, jnp.int32),
        age=slots.age,
    )


def train_stats(messages: Messages, drops_nonfinite: bool) -> TrainStats:
    """Return the losses of a block's clients; 0 for a client whose message will be dropped."""
    rows = messages.rows
    sent = rows.message
    finite = tree.finite_rows((sent.delta, sent.stats, sent.aux), rows.loss.shape[0])
    counts = (messages.slots.steps > 0) & (finite | (not drops_nonfinite))
    return TrainStats(
        loss=jnp.where(counts, rows.loss, 0),
        seen=jnp.where(counts, rows.seen, 0),
    )


def count_rows(used: Updates, nonfinite: Bool[Array, " rows"], slots: Slots) -> Counts:
    """Return how many rows the rule may use, were not finite, and were planned to report."""
    count = lambda mask: jnp.sum(mask, dtype=jnp.int32)
    return Counts(
        usable=count(used.arrived),
        nonfinite=count(nonfinite),
        reported=count(slots.weight > 0),
    )


def with_bytes(
    bytes: Int[Array, " rows"],
    arrived: Updates,
    slots: Slots,
    first_slot: Int[Array, ""] | int,
    left_out: Int[Array, " block"] | Int[Array, ""] | int = 0,
) -> Int[Array, " rows"]:
    """Return the bytes by slot with those of the block that begins with `first_slot`.

    Slots beyond the cohort send nothing, and clients leave out what `left_out_bytes` says.
    """
    sent = jnp.where(slots.count > 0, arrived.bytes - left_out, 0)
    return jax.lax.dynamic_update_slice_in_dim(bytes, sent, first_slot, 0)


def left_out_bytes(
    pipeline: Pipeline, shared: Shared, slots: Slots
) -> Int[Array, " block"] | Int[Array, ""] | int:
    """Return the bytes of the parameters that clients leave out of their messages in this round.

    They are those of leaves that rest, or that stay at the server, the same for all, or of what a
    client does not have. A codec encodes all leaves.
    """
    if pipeline.client.travel.instead is not None:
        return bytes_at_server(pipeline.client, shared["params"])
    if pipeline.client.travel.part is not None:
        by_level = bytes_without_part(pipeline.client.travel.part, pipeline.shared_params(shared))
        return jnp.asarray(by_level, jnp.int32)[slots.work.level]
    if pipeline.client.travel.resting is None or pipeline.codec is not None:
        return 0
    params = pipeline.shared_params(shared)
    rests = jax.tree.leaves(pipeline.client.travel.resting(shared, params))
    sizes = [tree.payload_bytes(leaf) for leaf in jax.tree.leaves(params)]
    return jnp.sum(jnp.stack(rests) * jnp.asarray(sizes), dtype=jnp.int32)


def is_finite(params: Tree) -> Bool[Array, ""]:
    leaves = jax.tree.leaves(params)
    if not leaves:  # nothing travels
        return jnp.array(True)
    finite_leaves = (jnp.isfinite(leaf).all() for leaf in leaves)
    return functools.reduce(jnp.logical_and, finite_leaves)


def mean_losses(rows: Rows) -> Float[Array, " block"]:
    """Return the mean loss of every client over its batches."""
    return rows.loss / jnp.maximum(rows.seen, 1)
