"""What happens to a round's rows between the clients and the shared variables: wire, drop, stages, rule, optimisers.

A cohort comes block by block. Where every stage works on one row and the rule is a sum, each block is folded into an
accumulator and forgotten; otherwise the rows are gathered and the round is closed over the whole stack. The sections of
the shared variables close together: `params` by the rule, `stats` by the weights that the rule used, `aux` by the
reducer that the client method declared.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import ServerStep, line, server_step
from fedsim.engine import sections
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import Memories, Memory
from fedsim.engine.pack import Jobs, columns
from fedsim.tree import Tree
from fedsim.types import Client, Context, RowStage, Rule, Stage, Task, Updates, reported


class Server(NamedTuple):
    """What the server sends and what it remembers; leaves state the bank's axis `[W, ...]`."""

    bank: Tree  # the shared variables
    state: dict[str, Tree]  # states of wire, stages, and rule with its optimisers


class RoundInfo(NamedTuple):
    """Which round of which run: what the server's programs know beside the rows."""

    root: Array  # key of all randomness of the run
    round: Int[Array, ""] | int
    clients: Float[Array, ""]  # that can take part: those with samples
    samples: Float[Array, ""]  # of all of them together


class Looked(NamedTuple):
    """Sum of the messages of a round's first pass."""

    delta: Tree
    arrived: Float[Array, ""]


class Gathered(NamedTuple):
    """Rows of a round that must be seen together `[blocks · block, ...]`."""

    updates: Updates
    jobs: Jobs  # the columns by slot
    memory: Tree


class Counts(NamedTuple):
    """Of clients."""

    usable: Int[Array, ""]  # whose rows the rule may use
    nonfinite: Int[Array, ""]
    reported: Int[Array, ""]


class Total(NamedTuple):
    """Accumulator over the blocks of a round."""

    rule: Tree
    sections: sections.Sections
    counts: Counts


class Met(NamedTuple):
    """What a block's clients met while training, for the round's row."""

    loss: Float[Array, " block"]  # Σ batch loss · valid rows
    seen: Float[Array, " block"]  # Σ valid rows


class Outcome(NamedTuple):
    """What a round did, in numbers that the host reads later."""

    reported: Int[Array, ""]
    nonfinite: Int[Array, ""]
    usable: Int[Array, ""]
    skipped: Bool[Array, ""]  # too little arrived: model and optimisers stay as they were
    finite: Bool[Array, ""]  # are the shared params


class Serve(NamedTuple):
    """The server's program."""

    init: Callable  # (shared, present) -> Server
    zero: Callable  # (rows, jobs) -> accumulator
    add: Callable  # (accumulator, server, memory, rows, loss, jobs, info, first) -> (accumulator, memory, Met)
    close: Callable  # (accumulator, server, memory, jobs, info) -> (Server, memory, Outcome)
    look: Callable  # (sum or None, server, rows of the first pass, jobs, info) -> sum
    tell: Callable  # (sum, server) -> the server, whose clients now know the mean of the first pass
    shown: Callable  # (server) -> the variables that are evaluated, with the bank's axis
    least: int  # clients that must report
    folds: bool  # whether a block is forgotten once it is added
    asks: bool  # whether a round has a first pass
    losses: bool  # whether clients tell their loss in it
    line: "_Line"


def serve(
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
) -> Serve:
    """The program of steps 3 to 5 of a round, with no optimizer behind the rule.

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
    """
    travel, screen = line(wire, width), line(stages, width)
    folds = rule.fold is not None and all(isinstance(s, RowStage) for s in (*wire, *stages))
    room, least = None if folds else blocks * block, max(travel.least, screen.least, rule.least)
    made = _Line(travel, screen, rule, server_step(), memories, client, task, drop, room, least)
    losses = "loss" in rule.needs
    return Serve(
        init=jax.jit(made.init),
        zero=jax.jit(made.zero),
        add=jax.jit(made.add, donate_argnums=(0, 2)),
        close=jax.jit(made.close, donate_argnums=2),
        look=jax.jit(made.look),
        tell=jax.jit(made.tell),
        shown=made.sent if rule.evaluated is None else jax.jit(made.averaged),
        least=least,
        folds=folds,
        asks=losses or client.probe is not None,
        losses=losses,
        line=made,
    )


def with_optimizers(serve: Serve, behind: ServerStep) -> Serve:
    """The program with optimisers behind its rule: what comes before them is compiled once, whichever they are."""
    made = serve.line._replace(behind=behind)
    return serve._replace(init=jax.jit(made.init), close=jax.jit(made.close, donate_argnums=2), line=made)


class _Line(NamedTuple):
    """What messages pass on their way into the shared variables, and the steps of the way."""

    travel: Stage
    screen: Stage
    rule: Rule
    behind: ServerStep
    memories: Memories
    client: Client
    task: Task
    drop: bool
    room: int | None  # rows of a round that are gathered; None: blocks are folded
    least: int  # clients that must report

    def context(self, server: Server, jobs: Jobs, info: RoundInfo, phase: Phase) -> Context:
        key, lr = round_key(info.root, info.round, phase), jobs.lr[0]
        known = (key, info.round, info.clients, lr, server.bank, jobs.id, jobs.malicious)
        return Context(*known, samples=info.samples)

    def init(self, shared: Tree, present: Array) -> Server:
        links = {"wire": self.travel, "stages": self.screen, "rule": self.rule}
        state = {name: link.init(shared["params"], present) for name, link in links.items()}
        state["behind"] = self.behind.init(shared["params"])
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], Server(shared, state))

    def sent(self, server: Server) -> Tree:
        """The variables that clients train on."""
        return server.bank

    def averaged(self, server: Server) -> Tree:
        """The variables that are evaluated, where these are others."""
        assert self.rule.evaluated is not None
        now = tree.take(server, 0)
        params = self.rule.evaluated(now.bank["params"], now.state["rule"])
        return {**server.bank, "params": jax.tree.map(lambda leaf: leaf[None], params)}

    def arrive(
        self, updates: Updates, server: Server, jobs: Jobs, info: RoundInfo, phase=Phase.WIRE
    ) -> tuple[Updates, Tree, Array]:
        """Step 3, and the filter behind it -> (updates, wire's state, which rows were not finite)."""
        context = self.context(server, jobs, info, phase)
        updates, state, _ = self.travel.apply(updates, server.state["wire"], context)
        sent = (updates.delta, updates.stats, updates.aux)
        bad = (updates.weight > 0) & ~tree.finite_rows(sent, updates.weight.shape[0])
        return updates._replace(weight=jnp.where(bad & self.drop, 0, updates.weight)), state, bad

    def keep(self, memory: Memory, old: Server, jobs: Jobs, rows: Tree, arrived: Updates) -> Memory:
        """Clients remember where the message arrived; once the model is not finite, everything stays as it is."""
        if not jax.tree.leaves(rows):
            return memory
        alive = tree.finite_rows(jax.tree.map(lambda leaf: leaf[None], old.bank["params"]), 1)[0]
        return self.memories.scatter(memory, jobs, rows, (arrived.weight > 0) & alive)

    def look(self, total: Looked | None, server: Server, rows: Rows, jobs: Jobs, info: RoundInfo) -> Looked:
        """More messages of the first pass: they travel like those of the second, and count alike."""
        arrived, _, _ = self.arrive(_received(rows, None, jobs), tree.take(server, 0), jobs, info, Phase.FIRST)
        nothing = Looked(tree.zero_row(arrived.delta), jnp.zeros_like(arrived.weight[0]))
        w = reported(arrived)
        return Looked(*tree.fold(tuple(total or nothing), (arrived.delta, jnp.ones_like(w)), w))

    def tell(self, total: Looked, server: Server) -> Server:
        mean = jax.tree.map(lambda leaf: leaf[None], tree.divide(*total))
        return server._replace(bank={**server.bank, "aux": {**server.bank["aux"], "probe": mean}})

    def zero(self, rows: Rows, jobs: Jobs) -> Total | Gathered:
        updates = _received(rows, None, jobs)
        if self.room is not None:
            empty = lambda leaf: jnp.zeros((self.room, *leaf.shape[1:]), leaf.dtype)
            return jax.tree.map(empty, Gathered(updates, columns(jobs), rows.message.memory))
        assert self.rule.fold is not None
        none = Counts(*[jnp.zeros((), jnp.int32)] * 3)
        return Total(self.rule.fold.zero(updates), sections.nothing(updates, self.client), none)

    def add(self, total, server: Server, memory: Memory, rows: Rows, loss, jobs: Jobs, info: RoundInfo, first):
        """A block's rows: folded and forgotten, or gathered until the close."""
        met = self.met(rows, jobs)
        updates, old = _received(rows, loss, jobs), tree.take(server, 0)
        if self.room is None:
            total, memory = self.fold(total, old, memory, updates, rows.message.memory, jobs, info)
        else:
            new = Gathered(updates, columns(jobs), rows.message.memory)
            place = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, first, 0)
            total = jax.tree.map(place, total, new)
        return total, memory, met

    def met(self, rows: Rows, jobs: Jobs) -> Met:
        """What training met; a client whose message will be dropped as not finite has no say in the mean loss either."""
        sent = rows.message
        finite = tree.finite_rows((sent.delta, sent.stats, sent.aux), rows.loss.shape[0])
        counts = (jobs.steps > 0) & (finite | (not self.drop))
        return Met(jnp.where(counts, rows.loss, 0), jnp.where(counts, rows.seen, 0))

    def fold(
        self, total: Total, old: Server, memory: Memory, updates: Updates, remembered: Tree, jobs: Jobs, info: RoundInfo
    ):
        assert self.rule.fold is not None
        arrived, _, bad = self.arrive(updates, old, jobs, info)
        kept, _, _ = self.screen.apply(arrived, old.state["stages"], self.context(old, jobs, info, Phase.SERVER))
        memory = self.keep(memory, old, jobs, remembered, arrived)
        return Total(
            self.rule.fold.add(total.rule, kept, self.context(old, jobs, info, Phase.RULE)),
            sections.more(total.sections, kept, arrived, self.rule.weights(kept), jobs.lr_sum),
            jax.tree.map(jnp.add, total.counts, _counts(kept, bad, jobs)),
        ), memory

    def close_fold(self, total: Total, old: Server, memory: Memory, jobs: Jobs, info: RoundInfo):
        assert self.rule.fold is not None
        context = self.context(old, jobs, info, Phase.RULE)
        aggregate, state, _ = self.rule.fold.finish(total.rule, old.state["rule"], context)
        return aggregate, {**old.state, "rule": state}, total.sections, total.counts, memory

    def close_stack(self, total: Gathered, old: Server, memory: Memory, info: RoundInfo):
        updates, jobs = total.updates, total.jobs
        arrived, wire, bad = self.arrive(updates, old, jobs, info)
        kept, stages, _ = self.screen.apply(arrived, old.state["stages"], self.context(old, jobs, info, Phase.SERVER))
        aggregate, state, _ = self.rule.apply(kept, old.state["rule"], self.context(old, jobs, info, Phase.RULE))
        memory = self.keep(memory, old, jobs, total.memory, arrived)
        none = sections.nothing(kept, self.client)
        others = sections.more(none, kept, arrived, self.rule.weights(kept), jobs.lr_sum)
        state = {**old.state, "wire": wire, "stages": stages, "rule": state}
        return aggregate, state, others, _counts(kept, bad, jobs), memory

    def close(self, total, server: Server, memory: Memory, jobs: Jobs, info: RoundInfo):
        """Steps 4 and 5: the next server, of all sections together."""
        old = tree.take(server, 0)
        if self.room is None:
            closed = self.close_fold(total, old, memory, jobs, info)
        else:
            closed = self.close_stack(total, old, memory, info)
        aggregate, state, others, counts, memory = closed
        step, state["behind"] = self.behind.apply(aggregate, old.state["behind"], old.bank["params"])
        skipped, moved = counts.usable < self.least, tree.add(old.bank["params"], step)
        params, state = tree.select(skipped, (old.bank["params"], old.state), (moved, state))
        rest = sections.closed(others, old.bank, aggregate, skipped, self.client, self.task, info.clients)
        stacked = jax.tree.map(lambda leaf: leaf[None], Server({"params": params, **rest}, state))
        finite = tree.finite_rows(stacked.bank["params"], 1)[0]
        return stacked, memory, Outcome(counts.reported, counts.nonfinite, counts.usable, skipped, finite)


def _counts(kept: Updates, bad: Array, jobs: Jobs) -> Counts:
    return Counts(*(jnp.sum(mask, dtype=jnp.int32) for mask in (kept.weight > 0, bad, jobs.weight > 0)))


def mean_losses(rows: Rows) -> Float[Array, " block"]:
    """Mean loss of every client over what it met."""
    return rows.loss / jnp.maximum(rows.seen, 1)


def _received(rows: Rows, loss: Array | None, jobs: Jobs) -> Updates:
    """The stack as the wire finds it; `loss` is that of the start model, where a first pass met it."""
    sent = rows.message
    loss = jnp.full_like(jobs.weight, jnp.nan) if loss is None else loss
    steps = jobs.steps.astype(jobs.weight.dtype)
    return Updates(sent.delta, sent.stats, sent.aux, jobs.weight, jobs.count, loss, steps, sent.effort)
