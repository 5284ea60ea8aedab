"""Steps 3 and 4 of a round, as programs: wire, filter, stages, rule, optimisers.

A cohort comes block by block. Where every stage works on one row and the rule is a sum, each block is folded into an
accumulator and forgotten; otherwise the rows are gathered, and the round is closed over the whole stack. The sections of
the shared variables close together: `params` by the rule, `stats` by the weights that the rule used, `aux` by the
reducer that the client method declared.
"""

import copy
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim import tree
from fedsim.compose import ServerStep, add_reports, labels, line, no_reports, server_step, settled
from fedsim.engine import sections
from fedsim.engine.jitted import jitted, jitted_with
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.layout import Jobs, by_slot
from fedsim.engine.memory import Memories, Memory
from fedsim.engine.serving import (
    Closed,
    Counts,
    Folded,
    Gathered,
    Outcome,
    ProbeSum,
    RoundInfo,
    ServerState,
    TrainStats,
    Travelled,
    count_rows,
    is_finite,
    received,
)
from fedsim.tree import Tree
from fedsim.types import Client, Context, Info, RowStage, Rule, Shared, Stage, Task, Updates, reported

COMMON = ("malicious_kept", "attack_success")  # columns of their own: the last link that reports them


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
      most: and how many may.
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
        self.most = rule.most
        self.folds = rule.fold is not None and all(isinstance(stage, RowStage) for stage in (*wire, *stages))
        self.rows = blocks * block  # of the largest cohort
        self.labels = labels([*wire, *stages, rule])
        self.stages_at = len(wire)
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
    def zero(self, rows: Rows, server: ServerState, jobs: Jobs, info: RoundInfo) -> Folded | Gathered:
        """The accumulator before the first block."""
        updates = received(rows, None, jobs)
        if not self.folds:
            empty = lambda leaf: jnp.zeros((self.rows, *leaf.shape[1:]), leaf.dtype)
            return jax.tree.map(empty, Gathered(updates, by_slot(jobs), rows.message.memory))
        assert self.rule.fold is not None
        none = Counts(*[jnp.zeros((), jnp.int32)] * 3)
        reports = jax.eval_shape(lambda *them: self._through(*them).info, updates, server, jobs, info)
        silent = no_reports(reports)
        return Folded(self.rule.fold.zero(updates), sections.nothing(updates, self.client), none, silent)

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
        if self.most is not None:
            skipped |= counts.usable > self.most
        params, state = tree.select(skipped, (old, server.state), (tree.add(old, step), state))
        rest = sections.closed(
            closed.sections, server.shared, closed.aggregate, skipped, self.client, self.task, info.clients
        )
        finite = is_finite(params)
        whole = lambda value: jnp.issubdtype(value.dtype, jnp.integer)  # a round that is skipped counts nothing
        reports = {name: jnp.where(skipped & whole(value), 0, value) for name, value in closed.info.items()}
        outcome = Outcome(counts.reported, counts.nonfinite, counts.usable, skipped, finite, reports)
        return ServerState({"params": params, **rest}, state), closed.memory, outcome

    @jitted
    def add_probe(
        self, total: ProbeSum | None, server: ServerState, rows: Rows, jobs: Jobs, info: RoundInfo
    ) -> ProbeSum:
        """More messages of the pass at x: they travel like those of the training, and count alike."""
        arrived = self._arrive(received(rows, None, jobs), server, jobs, info, Phase.PROBE)[0]
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
    ) -> tuple[Updates, Tree, Any, Array]:
        """The wire and the filter behind it -> (updates, the wire's state and reports, which rows were not finite)."""
        context = self._context(server, jobs, info, phase)
        updates, state, reports = self.wire.apply(updates, server.state["wire"], context)
        sent = (updates.delta, updates.stats, updates.aux)
        bad = updates.arrived & ~tree.finite_rows(sent, len(updates.arrived))
        return updates._replace(arrived=updates.arrived & ~(bad & self.drop)), state, reports, bad

    def _keep(self, memory: Memory, server: ServerState, jobs: Jobs, rows: Tree, arrived: Updates) -> Memory:
        """Clients remember where the message arrived; once the model is not finite, everything stays as it is."""
        if not jax.tree.leaves(rows):
            return memory
        alive = is_finite(server.shared["params"])
        return self.memories.scatter(memory, jobs, rows, arrived.arrived & alive)

    def _train_stats(self, rows: Rows, jobs: Jobs) -> TrainStats:
        """A client whose message will be dropped as not finite has no say in the mean loss either."""
        sent = rows.message
        finite = tree.finite_rows((sent.delta, sent.stats, sent.aux), rows.loss.shape[0])
        counts = (jobs.steps > 0) & (finite | (not self.drop))
        return TrainStats(jnp.where(counts, rows.loss, 0), jnp.where(counts, rows.seen, 0))

    def _through(self, updates: Updates, server: ServerState, jobs: Jobs, info: RoundInfo) -> Travelled:
        """Wire, filter and the server's stages before the rule."""
        arrived, wire, info_of_wire, bad = self._arrive(updates, server, jobs, info)
        context = self._context(server, jobs, info, Phase.SERVER)
        kept, stages, reports = self.stages.apply(arrived, server.state["stages"], context)
        info_of_stages = {self.stages_at + place: more for place, more in reports.items()}
        return Travelled(arrived, kept, bad, {"wire": wire, "stages": stages}, {**info_of_wire, **info_of_stages})

    def _after(self, state: dict[str, Tree], info: Info) -> dict[str, Tree]:
        """The states of wire and stages when the round is over."""
        assert self.wire.after is not None and self.stages.after is not None
        wire = {place: more for place, more in info.items() if place < self.stages_at}
        stages = {place - self.stages_at: more for place, more in info.items() if place >= self.stages_at}
        return {"wire": self.wire.after(state["wire"], wire), "stages": self.stages.after(state["stages"], stages)}

    def _reports(self, info: Info, rule: Info) -> Info:
        """What links report, as `krum/malicious_kept`; the last of those that say so is `malicious_kept` alone."""
        reports = [(self.labels[place], settled(more)) for place, more in info.items()] + [(self.labels[-1], rule)]
        common = {name: value for _, more in reports for name, value in more.items() if name in COMMON}
        return {f"{label}/{name}": value for label, more in reports for name, value in more.items()} | common

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
        arrived, kept, bad, _, reports = self._through(updates, server, jobs, info)
        memory = self._keep(memory, server, jobs, remembered, arrived)
        total = Folded(
            self.rule.fold.add(total.rule, kept, self._context(server, jobs, info, Phase.RULE)),
            sections.more(total.sections, kept, arrived, self.rule.weights(kept), jobs.lr_sum),
            jax.tree.map(jnp.add, total.counts, count_rows(kept, bad, jobs)),
            add_reports(total.info, reports),
        )
        return total, memory

    def _close_fold(self, total: Folded, server: ServerState, memory: Memory, jobs: Jobs, info: RoundInfo) -> Closed:
        assert self.rule.fold is not None
        context = self._context(server, jobs, info, Phase.RULE)
        aggregate, rule, info_of_rule = self.rule.fold.finish(total.rule, server.state["rule"], context)
        state = {**server.state, **self._after(server.state, total.info), "rule": rule}
        return Closed(aggregate, state, total.sections, total.counts, memory, self._reports(total.info, info_of_rule))

    def _close_stack(self, total: Gathered, server: ServerState, memory: Memory, info: RoundInfo) -> Closed:
        updates, jobs = total.updates, total.jobs
        arrived, kept, bad, before, reports = self._through(updates, server, jobs, info)
        reports = add_reports(no_reports(reports), reports)
        context = self._context(server, jobs, info, Phase.RULE)
        aggregate, rule, info_of_rule = self.rule.apply(kept, server.state["rule"], context)
        memory = self._keep(memory, server, jobs, total.memory, arrived)
        none = sections.nothing(kept, self.client)
        sums = sections.more(none, kept, arrived, self.rule.weights(kept), jobs.lr_sum)
        state = {**server.state, **self._after(before, reports), "rule": rule}
        return Closed(aggregate, state, sums, count_rows(kept, bad, jobs), memory, self._reports(reports, info_of_rule))
