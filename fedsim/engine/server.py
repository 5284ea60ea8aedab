"""Steps 3 and 4 of a round, as programs: wire, filter, stages, rule, optimisers.

A cohort comes block by block. Where every stage works on one row and the rule is a sum, each block is folded into an
accumulator and forgotten; otherwise the rows are gathered, and the round is closed over the whole stack. The sections of
the shared variables close together: `params` by the rule, `stats` by the weights that the rule used, `aux` by the
reducer that the client method declared.
"""

import copy
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.compose import ServerStep, line, server_step
from fedsim.engine import sections
from fedsim.engine.jitted import jitted, jitted_with
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.layout import Jobs, by_slot
from fedsim.engine.memory import Memories, Memory
from fedsim.tree import Tree
from fedsim.types import Client, Context, RowStage, Rule, Shared, Stage, Task, Updates, reported


class ServerState(NamedTuple):
    """What the server sends, and what it remembers."""

    shared: Shared
    state: dict[str, Tree]  # of wire, stages, rule and optimisers


class RoundInfo(NamedTuple):
    """Which round of which run: what the server's programs know beside the rows."""

    root: Key[Array, ""]  # of all randomness of the run
    round: Int[Array, ""] | int
    clients: Float[Array, ""]  # that can take part: those with samples
    samples: Float[Array, ""]  # of all of them together


class ProbeSum(NamedTuple):
    """Sum of the messages of a round's pass at x."""

    delta: Tree
    arrived: Float[Array, ""]


class Gathered(NamedTuple):
    """Rows of a round that must be seen together `[blocks · block, ...]`."""

    updates: Updates
    jobs: Jobs  # the columns by slot
    memory: Tree


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


class TrainStats(NamedTuple):
    """Losses of a block's clients while they trained, for the round's row."""

    loss: Float[Array, " block"]  # Σ batch loss · valid rows
    seen: Float[Array, " block"]  # Σ valid rows


class Closed(NamedTuple):
    """What the rule and the sums beside it give at the end of a round."""

    aggregate: Tree
    state: dict[str, Tree]
    sections: sections.Sections
    counts: Counts
    memory: Memory


class Outcome(NamedTuple):
    """What a round did, in numbers that the host reads later."""

    reported: Int[Array, ""]
    nonfinite: Int[Array, ""]
    usable: Int[Array, ""]
    skipped: Bool[Array, ""]  # too little arrived: model and optimisers stay as they were
    finite: Bool[Array, ""]  # are the shared params


class Server:
    """The programs of one wire, one list of stages, rule and optimisers, behind one client method.

    Args:
      wire: what happens to messages on their way.
      stages: what the server does with the stack before the rule.
      rule: the reducing rule.
      memories: the client method's memory.
      client: the client method, whose `aux` is reduced as it says.
      task: of its reducers.
      drop: give weight 0 to a row that is not finite.
      width: rows that a row-wise stage works on at a time.
      block: rows of a block.
      blocks: blocks of the largest cohort.

    Attributes:
      least: clients that must report.
      folds: whether a block is forgotten once it is added.
      asks_loss: whether clients send their loss at x.
      probes: whether a round has a pass at x before training.
    """

    def __init__(
        self,
        wire: Sequence[Stage | RowStage],
        stages: Sequence[Stage | RowStage],
        rule: Rule,
        memories: Memories,
        client: Client,
        task: Task,
        *,
        drop: bool,
        width: int,
        block: int,
        blocks: int,
    ):
        self.wire, self.stages, self.rule, self.optimiser = line(wire, width), line(stages, width), rule, server_step()
        self.memories, self.client, self.task, self.drop = memories, client, task, drop
        self.least = max(self.wire.least, self.stages.least, rule.least)
        self.folds = rule.fold is not None and all(isinstance(stage, RowStage) for stage in (*wire, *stages))
        self.rows = blocks * block  # of the largest cohort
        self.asks_loss = "loss" in rule.needs
        self.probes = self.asks_loss or client.probe is not None

    def with_optimiser(self, optimiser: ServerStep) -> "Server":
        """The same with optimisers behind the rule: what comes before them is compiled once, whichever they are."""
        other = copy.copy(self)
        for name in ("init", "close"):
            other.__dict__.pop(name, None)
        for name in ("zero", "add", "add_probe", "send_probe", "evaluated"):
            other.__dict__[name] = getattr(self, name)
        other.optimiser = optimiser
        return other

    @jitted
    def init(self, shared: Shared, present: Any) -> ServerState:
        """A fresh server around the start variables; `present`: the clients that can take part."""
        links = {"wire": self.wire, "stages": self.stages, "rule": self.rule}
        state = {name: link.init(shared["params"], present) for name, link in links.items()}
        state["optimiser"] = self.optimiser.init(shared["params"])
        return jax.tree.map(jnp.asarray, ServerState(shared, state))

    @jitted
    def evaluated(self, server: ServerState) -> Shared:
        """The variables that are evaluated: those sent, unless the rule reports others."""
        assert self.rule.evaluated is not None
        params = self.rule.evaluated(server.shared["params"], server.state["rule"])
        return {**server.shared, "params": params}

    def shown(self, server: ServerState) -> Shared:
        """`evaluated` where it is another program than handing the variables through."""
        return server.shared if self.rule.evaluated is None else self.evaluated(server)

    @jitted
    def zero(self, rows: Rows, jobs: Jobs) -> Folded | Gathered:
        """The accumulator before the first block."""
        updates = received(rows, None, jobs)
        if not self.folds:
            empty = lambda leaf: jnp.zeros((self.rows, *leaf.shape[1:]), leaf.dtype)
            return jax.tree.map(empty, Gathered(updates, by_slot(jobs), rows.message.memory))
        assert self.rule.fold is not None
        none = Counts(*[jnp.zeros((), jnp.int32)] * 3)
        return Folded(self.rule.fold.zero(updates), sections.nothing(updates, self.client), none)

    @jitted_with(donate=(0, 2))
    def add(
        self,
        total: Folded | Gathered,
        server: ServerState,
        memory: Memory,
        rows: Rows,
        loss: Array | None,
        jobs: Jobs,
        info: RoundInfo,
        first: Int[Array, ""] | int,
    ) -> tuple[Folded | Gathered, Memory, TrainStats]:
        """Rows of the slots from `first` on: folded and forgotten, or gathered until the close."""
        stats, updates = self._train_stats(rows, jobs), received(rows, loss, jobs)
        if isinstance(total, Folded):
            total, memory = self._fold(total, server, memory, updates, rows.message.memory, jobs, info)
        else:
            block = Gathered(updates, by_slot(jobs), rows.message.memory)
            place = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, first, 0)
            total = jax.tree.map(place, total, block)
        return total, memory, stats

    @jitted_with(donate=(2,))
    def close(
        self, total: Folded | Gathered, server: ServerState, memory: Memory, jobs: Jobs, info: RoundInfo
    ) -> tuple[ServerState, Memory, Outcome]:
        """The next server, of all sections together; the old one where too little arrived."""
        if isinstance(total, Folded):
            closed = self._close_fold(total, server, memory, jobs, info)
        else:
            closed = self._close_stack(total, server, memory, info)
        old, state, counts = server.shared["params"], closed.state, closed.counts
        step, state["optimiser"] = self.optimiser.apply(closed.aggregate, server.state["optimiser"], old)
        skipped = counts.usable < self.least
        params, state = tree.select(skipped, (old, server.state), (tree.add(old, step), state))
        rest = sections.closed(
            closed.sections, server.shared, closed.aggregate, skipped, self.client, self.task, info.clients
        )
        finite = _finite(params)
        outcome = Outcome(counts.reported, counts.nonfinite, counts.usable, skipped, finite)
        return ServerState({"params": params, **rest}, state), closed.memory, outcome

    @jitted
    def add_probe(
        self, total: ProbeSum | None, server: ServerState, rows: Rows, jobs: Jobs, info: RoundInfo
    ) -> ProbeSum:
        """More messages of the pass at x: they travel like those of the training, and count alike."""
        arrived, _, _ = self._arrive(received(rows, None, jobs), server, jobs, info, Phase.PROBE)
        nothing = ProbeSum(tree.zero_row(arrived.delta), jnp.zeros_like(arrived.samples[0]))
        w = reported(arrived)
        return ProbeSum(*tree.fold(tuple(total or nothing), (arrived.delta, jnp.ones_like(w)), w))

    @jitted
    def send_probe(self, total: ProbeSum, server: ServerState) -> ServerState:
        """The server, whose clients now know the mean of the pass at x."""
        aux = {**server.shared["aux"], "probe": tree.divide(*total)}
        return server._replace(shared={**server.shared, "aux": aux})

    def _context(self, server: ServerState, jobs: Jobs, info: RoundInfo, phase: Phase) -> Context:
        return Context(
            key=round_key(info.root, info.round, phase),
            round=info.round,
            N=info.clients,
            lr=jobs.lr[0],
            shared=server.shared,
            ids=jobs.id,
            malicious=jobs.malicious,
            samples=info.samples,
        )

    def _arrive(
        self, updates: Updates, server: ServerState, jobs: Jobs, info: RoundInfo, phase: Phase = Phase.WIRE
    ) -> tuple[Updates, Tree, Array]:
        """The wire and the filter behind it -> (updates, the wire's state, which rows were not finite)."""
        context = self._context(server, jobs, info, phase)
        updates, state, _ = self.wire.apply(updates, server.state["wire"], context)
        sent = (updates.delta, updates.stats, updates.aux)
        bad = updates.arrived & ~tree.finite_rows(sent, len(updates.arrived))
        return updates._replace(arrived=updates.arrived & ~(bad & self.drop)), state, bad

    def _keep(self, memory: Memory, server: ServerState, jobs: Jobs, rows: Tree, arrived: Updates) -> Memory:
        """Clients remember where the message arrived; once the model is not finite, everything stays as it is."""
        if not jax.tree.leaves(rows):
            return memory
        alive = _finite(server.shared["params"])
        return self.memories.scatter(memory, jobs, rows, arrived.arrived & alive)

    def _train_stats(self, rows: Rows, jobs: Jobs) -> TrainStats:
        """A client whose message will be dropped as not finite has no say in the mean loss either."""
        sent = rows.message
        finite = tree.finite_rows((sent.delta, sent.stats, sent.aux), rows.loss.shape[0])
        counts = (jobs.steps > 0) & (finite | (not self.drop))
        return TrainStats(jnp.where(counts, rows.loss, 0), jnp.where(counts, rows.seen, 0))

    def _screened(self, arrived: Updates, server: ServerState, jobs: Jobs, info: RoundInfo) -> tuple[Updates, Tree]:
        """The server's stages before the rule -> (updates, their state)."""
        context = self._context(server, jobs, info, Phase.SERVER)
        kept, state, _ = self.stages.apply(arrived, server.state["stages"], context)
        return kept, state

    def _fold(
        self,
        total: Folded,
        server: ServerState,
        memory: Memory,
        updates: Updates,
        remembered: Tree,
        jobs: Jobs,
        info: RoundInfo,
    ) -> tuple[Folded, Memory]:
        assert self.rule.fold is not None
        arrived, _, bad = self._arrive(updates, server, jobs, info)
        kept, _ = self._screened(arrived, server, jobs, info)
        memory = self._keep(memory, server, jobs, remembered, arrived)
        total = Folded(
            self.rule.fold.add(total.rule, kept, self._context(server, jobs, info, Phase.RULE)),
            sections.more(total.sections, kept, arrived, self.rule.weights(kept), jobs.lr_sum),
            jax.tree.map(jnp.add, total.counts, _counts(kept, bad, jobs)),
        )
        return total, memory

    def _close_fold(self, total: Folded, server: ServerState, memory: Memory, jobs: Jobs, info: RoundInfo) -> Closed:
        assert self.rule.fold is not None
        context = self._context(server, jobs, info, Phase.RULE)
        aggregate, state, _ = self.rule.fold.finish(total.rule, server.state["rule"], context)
        return Closed(aggregate, {**server.state, "rule": state}, total.sections, total.counts, memory)

    def _close_stack(self, total: Gathered, server: ServerState, memory: Memory, info: RoundInfo) -> Closed:
        updates, jobs = total.updates, total.jobs
        arrived, wire, bad = self._arrive(updates, server, jobs, info)
        kept, stages = self._screened(arrived, server, jobs, info)
        context = self._context(server, jobs, info, Phase.RULE)
        aggregate, rule, _ = self.rule.apply(kept, server.state["rule"], context)
        memory = self._keep(memory, server, jobs, total.memory, arrived)
        none = sections.nothing(kept, self.client)
        sums = sections.more(none, kept, arrived, self.rule.weights(kept), jobs.lr_sum)
        state = {**server.state, "wire": wire, "stages": stages, "rule": rule}
        return Closed(aggregate, state, sums, _counts(kept, bad, jobs), memory)


def _counts(kept: Updates, bad: Array, jobs: Jobs) -> Counts:
    return Counts(*(jnp.sum(mask, dtype=jnp.int32) for mask in (kept.arrived, bad, jobs.weight > 0)))


def _finite(params: Tree) -> Bool[Array, ""]:
    return functools.reduce(jnp.logical_and, (jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)))


def mean_losses(rows: Rows) -> Float[Array, " block"]:
    """Mean loss of every client over its batches."""
    return rows.loss / jnp.maximum(rows.seen, 1)


def received(rows: Rows, loss: Array | None, jobs: Jobs) -> Updates:
    """The stack as the wire finds it; `loss` is that of the start model, where a pass at x gave it."""
    sent = rows.message
    return Updates(
        delta=sent.delta,
        stats=sent.stats,
        aux=sent.aux,
        arrived=jobs.weight > 0,
        samples=jobs.samples,
        count=jobs.count,
        loss=jnp.full_like(jobs.weight, jnp.nan) if loss is None else loss,
        steps=jobs.steps.astype(jobs.weight.dtype),
        effort=sent.effort,
    )
