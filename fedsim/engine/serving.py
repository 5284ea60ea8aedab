"""What passes between the server's programs in a round."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.engine import sections
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memory
from fedsim.engine.own_samples import OwnSamples
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Flown, Info, Shared, Updates


class ServerState(NamedTuple):
    """What the server sends, and what it remembers."""

    shared: Shared
    state: dict[str, Tree]  # of wire, stages, rule and optimisers


class Sent(NamedTuple):
    """What the clients of a round got, and the server that sent it."""

    server: ServerState
    shared: Shared  # as it arrived
    bytes: Int[Array, ""] | int | None = None  # to one client; None: those of the variables


class RoundInfo(NamedTuple):
    """Which round of which run: what the server's programs know beside the rows."""

    root: Key[Array, ""]  # of all randomness of the run
    round: Int[Array, ""] | int
    clients: Float[Array, ""]  # that can take part: those with samples
    samples: Float[Array, ""]  # of all of them together
    expected: Float[Array, "2"]  # clients that a round draws on average, and their samples; 0 where nobody knows
    own: OwnSamples | None = None  # of the server, where the rule asks for losses on them
    reference: Tree | None = None  # the server's own update, where the rule asks for it
    flown: Flown | None = None  # of the only client, where the schedule mixes models


class ProbeSum(NamedTuple):
    """Sum of the messages of a round's pass at x."""

    delta: Tree
    arrived: Float[Array, ""]
    bytes: Int[Array, " rows"]  # by slot


class Gathered(NamedTuple):
    """Rows of a round that must be seen together `[blocks · block, ...]`."""

    updates: Updates
    slots: Slots
    memory: Tree


class Travelled(NamedTuple):
    """Rows behind the wire, and behind the server's stages."""

    arrived: Updates
    kept: Updates
    bad: Bool[Array, " rows"]  # those that were not finite
    state: dict[str, Tree]  # of wire and stages
    info: Info


class Counts(NamedTuple):
    """Numbers of clients."""

    usable: Int[Array, ""]  # whose rows the rule may use
    nonfinite: Int[Array, ""]
    reported: Int[Array, ""]


class Folded(NamedTuple):
    """Accumulator over the blocks of a round."""

    rule: Tree
    sections: sections.Sections
    counts: Counts
    info: Info  # of wire and stages by their place, sums over the rows so far
    bytes: Int[Array, " rows"]  # of what every slot sent


class TrainStats(NamedTuple):
    """Losses of a block's clients while they trained, for the round's row."""

    loss: Float[Array, " block"]  # Σ batch loss · valid rows
    seen: Float[Array, " block"]  # Σ valid rows


class Closed(NamedTuple):
    """What the rule and the sums beside it give at the end of a round."""

    reduced: Tree | None  # what the rule made of a stack
    aggregate: Tree  # what becomes of it before the optimisers
    state: dict[str, Tree]
    sections: sections.Sections
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


def count_rows(kept: Updates, bad: Array, slots: Slots) -> Counts:
    return Counts(*(jnp.sum(mask, dtype=jnp.int32) for mask in (kept.arrived, bad, slots.weight > 0)))


def is_finite(params: Tree) -> Bool[Array, ""]:
    return functools.reduce(jnp.logical_and, (jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)))


def mean_losses(rows: Rows) -> Float[Array, " block"]:
    """Mean loss of every client over its batches."""
    return rows.loss / jnp.maximum(rows.seen, 1)


def placed_bytes(
    total: Int[Array, " rows"], arrived: Updates, slots: Slots, first: Int[Array, ""] | int
) -> Int[Array, " rows"]:
    """Bytes by slot, with those of the slots from `first` on; slots beyond the cohort send nothing."""
    return jax.lax.dynamic_update_slice_in_dim(total, jnp.where(slots.count > 0, arrived.bytes, 0), first, 0)


def train_stats(rows: Rows, slots: Slots, drop: bool) -> TrainStats:
    """A client whose message will be dropped as not finite has no say in the mean loss either."""
    sent = rows.message
    finite = tree.finite_rows((sent.delta, sent.stats, sent.aux), rows.loss.shape[0])
    counts = (slots.work.steps > 0) & (finite | (not drop))
    return TrainStats(jnp.where(counts, rows.loss, 0), jnp.where(counts, rows.seen, 0))


def received(rows: Rows, loss: Array | None, slots: Slots, remembered: Tree) -> Updates:
    """The stack as the wire finds it; `loss` is that of the start model, where a pass at x gave it."""
    sent, K = rows.message, rows.loss.shape[0]
    size = tree.payload_bytes((sent.delta, sent.stats, sent.aux)) // K
    return Updates(
        delta=sent.delta,
        stats=sent.stats,
        aux=sent.aux,
        arrived=slots.weight > 0,
        samples=slots.work.samples,
        count=slots.count,
        loss=jnp.full_like(slots.weight, jnp.nan) if loss is None else loss,
        steps=slots.work.steps.astype(slots.weight.dtype),
        effort=sent.effort,
        memory=remembered,
        bytes=jnp.full(K, size, jnp.int32),
        age=slots.age,
    )
