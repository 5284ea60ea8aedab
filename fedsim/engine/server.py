"""Steps 3 and 4 of a round, as programs: wire, filter, stages, rule, optimisers.

A cohort comes block by block. Where every stage works on one row and the rule is a sum, each block is folded into an
accumulator and forgotten; otherwise the rows are gathered, and the round is closed over the whole stack. The sections of
the shared variables close together: `params` by the rule, `stats` by the weights that the rule used, `aux` by the
reducer that the client method declared.
"""

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim import tree
from fedsim.compose import ServerStep, add_reports, in_bytes, no_reports, row_of, server_step, through
from fedsim.engine import sections
from fedsim.engine.deviation import Deviation, Deviations, HonestSum, add_honest, mean_of, ratio_to_bound
from fedsim.engine.jitted import Jitted, jitted, jitted_with
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import Rows
from fedsim.engine.memory import CLIENT, Memories, Memory
from fedsim.engine.passage import Passage, uncounted
from fedsim.engine.serving import (
    Closed,
    Counts,
    Folded,
    Gathered,
    Outcome,
    ProbeSum,
    RoundInfo,
    Sent,
    ServerState,
    TrainStats,
    Travelled,
    count_rows,
    is_finite,
    placed_bytes,
    received,
    train_stats,
)
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Codec, Info, Shared, Task, Updates, reported


class Gathering:
    """Rows of a round until they are all there: one program, whichever rule they are gathered for.

    Args:
      rows: of the largest cohort, in whole blocks.
      drop: as of `Passage`.
    """

    def __init__(self, rows: int, drop: bool):
        self.rows, self.drop = rows, drop

    def zero(self, rows: Rows, remembered: Tree, slots: Slots) -> Gathered:
        """Room for the rows of all blocks."""
        empty = lambda leaf: jnp.zeros((self.rows, *leaf.shape[1:]), leaf.dtype)
        updates = received(rows, None, slots, remembered)
        return jax.tree.map(empty, Gathered(updates, slots, rows.message.memory))

    @jitted_with(donate=(0,))
    def add(
        self,
        total: Gathered | None,
        rows: Rows,
        remembered: Tree,
        loss: Array | None,
        slots: Slots,
        first: Int[Array, ""] | int,
    ) -> tuple[Gathered, TrainStats]:
        """As `Server.add`."""
        total = self.zero(rows, remembered, slots) if total is None else total
        block = Gathered(received(rows, loss, slots, remembered), slots, rows.message.memory)
        place = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, first, 0)
        return jax.tree.map(place, total, block), train_stats(rows, slots, self.drop)


_gathering = functools.lru_cache(64)(Gathering)


class Server:
    """The programs of one passage and the optimisers behind it.

    Args:
      passage: links between the clients of a method and the optimisers.
      task: of the reducers of the method's `aux`.
      broadcast: by which the parameters are sent out; None: as they are.
      memories: of the client method alone, where others use the same; left out: its own.
      deviations: of another passage with the same wire; left out: of this one.
      block: rows of a block.
      blocks: blocks of the largest cohort.

    Attributes:
      memories: what the client method and stages remember of every client.
      least: clients that must report.
      most: and how many may.
      folds: whether a block is forgotten once it is added.
      adding: the program behind `add`.
      asks_loss: whether clients send their loss at x.
      probes: whether a round has a pass at x before training.
      refers: whether the rule asks for the server's own update.
      scores: whether it asks for losses on the server's own samples.
    """

    def __init__(
        self,
        passage: Passage,
        task: Task,
        broadcast: Codec | None = None,
        memories: Memories | None = None,
        deviations: Deviations | None = None,
        *,
        block: int,
        blocks: int,
    ):
        rule, client = passage.rule, passage.client
        self.passage = passage
        self.memories = memories if memories and not passage.remembering else Memories(client, passage.remembering)
        self.rule, self.optimiser, self.client, self.task = rule, server_step(), client, task
        self.broadcast = broadcast and broadcast._replace(linear=False)  # there is no sum to decode
        self.codec, self.least, self.most, self.folds = passage.codec, passage.least, rule.most, passage.folds
        self.rows = blocks * block  # of the largest cohort
        self.deviations = Deviations(passage) if deviations is None or passage.aims else deviations
        self.gathering = _gathering(self.rows, passage.drop)
        self.adding: Jitted = self.fold if self.folds else self.gathering.add
        self.asks_loss = "loss" in rule.needs
        self.probes = self.asks_loss or client.probe is not None
        self.refers, self.scores = "reference" in rule.needs, "server_loss" in rule.needs

    def with_optimiser(self, optimiser: ServerStep) -> "Server":
        """The same with optimisers behind the rule: what comes before them is compiled once, whichever they are."""
        other = copy.copy(self)
        for name in ("init", "close"):
            other.__dict__.pop(name, None)
        for name in ("fold", "add_probe", "add_honest", "distance", "kappa_ratio", "send", "send_probe", "evaluated"):
            other.__dict__[name] = getattr(self, name)
        other.optimiser = optimiser
        return other

    @jitted
    def init(self, shared: Shared, present: Any) -> ServerState:
        """A fresh server around the start variables; `present`: the clients that can take part."""
        params = self.passage.travelling(shared)
        state = {**self.passage.init(params, present), "optimiser": self.optimiser.init(params)}
        if self.broadcast is not None:
            state["broadcast"] = row_of(self.broadcast, params, params)
        return jax.tree.map(jnp.asarray, ServerState(shared, state))

    def sent(self, server: ServerState, info: RoundInfo) -> Sent:
        """What the clients of a round get; without a codec the server's variables themselves."""
        return Sent(server, server.shared) if self.broadcast is None else self.send(server, info)

    @jitted
    def send(self, server: ServerState, info: RoundInfo) -> Sent:
        """`sent` by way of the codec; parameters that are not finite are sent as they are."""
        assert self.broadcast is not None
        old, before = self.passage.travelling(server.shared), server.state["broadcast"]
        key = round_key(info.root, info.round, Phase.BROADCAST)
        arrives, bits, memory = through(self.broadcast, old, before, key)
        server = server._replace(state={**server.state, "broadcast": memory})
        saved = tree.payload_bytes(old) - in_bytes(bits)
        shared = {**server.shared, "params": tree.filled(arrives, server.shared["params"])}
        return Sent(server, shared, tree.payload_bytes({**server.shared, "params": old}) - saved)

    @jitted
    def evaluated(self, server: ServerState) -> Shared:
        """The variables that are evaluated: those sent, unless the rule reports others."""
        assert self.rule.evaluated is not None
        params = self.rule.evaluated(self.passage.travelling(server.shared), server.state["rule"])
        return {**server.shared, "params": tree.filled(params, server.shared["params"])}

    def shown(self, server: ServerState) -> Shared:
        """`evaluated` where it is another program than handing the variables through."""
        return server.shared if self.rule.evaluated is None else self.evaluated(server)

    def zero(
        self, rows: Rows, remembered: Tree, server: ServerState, slots: Slots, info: RoundInfo
    ) -> Folded | Gathered:
        """The accumulator before the first block."""
        if not self.folds:
            return self.gathering.zero(rows, remembered, slots)
        return self._nothing(rows, remembered, server, slots, info)

    def add(
        self,
        total: Folded | Gathered | None,
        server: ServerState,
        memory: Memory,
        rows: Rows,
        remembered: Tree,
        loss: Array | None,
        slots: Slots,
        info: RoundInfo,
        first: Int[Array, ""] | int,
    ) -> tuple[Folded | Gathered, Memory, TrainStats]:
        """Rows of the slots from `first` on: folded and forgotten, or gathered until the close.

        `total` is None before the first block; `remembered` are the rows that stages remember of these clients.
        """
        if self.folds:
            assert not isinstance(total, Gathered)
            return self.fold(total, server, memory, rows, remembered, loss, slots, info, first)
        assert not isinstance(total, Folded)
        gathered, stats = self.gathering.add(total, rows, remembered, loss, slots, first)
        return gathered, memory, stats

    @jitted_with(donate=(0, 2))
    def fold(
        self,
        total: Folded | None,
        server: ServerState,
        memory: Memory,
        rows: Rows,
        remembered: Tree,
        loss: Array | None,
        slots: Slots,
        info: RoundInfo,
        first: Int[Array, ""] | int,
    ) -> tuple[Folded, Memory, TrainStats]:
        """`add` where blocks are folded."""
        stats = train_stats(rows, slots, self.passage.drop)
        if total is None:  # behind a barrier: 0 + x is added as in later blocks, and -0 becomes 0
            so_far: Folded = jax.lax.optimization_barrier(self._nothing(rows, remembered, server, slots, info))
        else:
            so_far = total
        updates = received(rows, loss, slots, remembered)
        return *self._fold(so_far, server, memory, updates, rows.message.memory, slots, info, first), stats

    @jitted_with(donate=(2,))
    def close(
        self, total: Folded | Gathered, server: ServerState, memory: Memory, slots: Slots, info: RoundInfo
    ) -> tuple[ServerState, Memory, Outcome, Tree | None]:
        """The next server, of all sections together; the old one where too little arrived.

        Last comes what the rule made of a stack, for `deviation`; None where blocks are folded.
        """
        if isinstance(total, Folded):
            closed = self._close_fold(total, server, memory, slots, info)
        else:
            closed = self._close_stack(total, server, memory, info)
        old, state, counts = self.passage.travelling(server.shared), closed.state, closed.counts
        step, state["optimiser"] = self.optimiser.apply(closed.aggregate, server.state["optimiser"], old)
        skipped = self._skips(counts.usable)
        params, state = tree.select(skipped, (old, server.state), (tree.add(old, step), state))
        rest = sections.closed(
            closed.sections, server.shared, closed.aggregate, skipped, self.client, self.task, info.clients
        )
        if info.flown is not None:
            before = server.shared["stats"]
            moved = tree.scale(tree.subtract(rest["stats"], before), info.flown.share)
            rest["stats"] = tree.add(before, moved)
        reports = uncounted(skipped, closed.info)
        outcome = Outcome(
            counts.reported, counts.nonfinite, counts.usable, skipped, is_finite(params), reports, closed.bytes
        )
        whole = tree.filled(params, server.shared["params"])
        return ServerState({"params": whole, **rest}, state), closed.memory, outcome, closed.reduced

    @jitted
    def add_probe(
        self,
        total: ProbeSum | None,
        server: ServerState,
        rows: Rows,
        slots: Slots,
        info: RoundInfo,
        first: Int[Array, ""] | int,
    ) -> ProbeSum:
        """More messages of the pass at x: they travel like those of the training, and count alike."""
        arrived = self.passage.arrive(received(rows, None, slots, {}), server, slots, info, Phase.PROBE)[0]
        zero = jnp.zeros_like(arrived.samples[0])
        nothing = ProbeSum(tree.zero_row(arrived.delta), zero, jnp.zeros(self.rows, jnp.int32))
        w, so_far = reported(arrived), total or nothing
        delta, count = tree.fold((so_far.delta, so_far.arrived), (arrived.delta, jnp.ones_like(w)), w)
        return ProbeSum(delta, count, placed_bytes(so_far.bytes, arrived, slots, first))

    @jitted
    def send_probe(self, total: ProbeSum, sent: Sent) -> Sent:
        """What was sent, and the server, with the mean of the pass at x."""
        mean = self.passage.decoded(tree.divide(total.delta, total.arrived), sent.server.shared)
        probe = {"probe": mean}
        with_probe = lambda shared: {**shared, "aux": {**shared["aux"], **probe}}
        server = sent.server._replace(shared=with_probe(sent.server.shared))
        return sent._replace(server=server, shared=with_probe(sent.shared))

    @jitted
    def add_honest(
        self, total: HonestSum | None, server: ServerState, rows: Rows, remembered: Tree, slots: Slots, info: RoundInfo
    ) -> HonestSum:
        """With the honest rows of a block that is folded and forgotten."""
        arrived = self.passage.arrive(received(rows, None, slots, remembered), server, slots, info)[0]
        return add_honest(total, arrived, self.passage.context(server, slots, info, Phase.RULE))

    def deviation(
        self,
        total: Folded | Gathered,
        reduced: Tree | None,
        honest: HonestSum | None,
        server: ServerState,
        slots: Slots,
        info: RoundInfo,
    ) -> Info:
        """How far the aggregate lies from the honest clients: programs of their own, which change no bit of the round.

        `reduced` is what `close` says that the rule made of the rows; a sum of blocks is divided once more.
        """
        if isinstance(total, Folded):
            return {"honest_distance": self.distance(total, honest, server, slots, info)}
        deviation = self.deviations.of(total, reduced, server, info)
        ratio = {} if self.passage.bound is None else {"kappa_ratio": self.kappa_ratio(deviation)}
        return {"honest_distance": deviation.distance, **ratio}

    @jitted
    def distance(
        self, total: Folded, honest: HonestSum | None, server: ServerState, slots: Slots, info: RoundInfo
    ) -> Array:
        """`deviation` where blocks are folded."""
        assert self.rule.fold is not None and honest is not None
        context = self.passage.context(server, slots, info, Phase.RULE)
        aggregate = self.rule.fold.finish(total.rule, server.state["rule"], context)[0]
        decoded = lambda message: self.passage.decoded(message, server.shared)
        return tree.norm(tree.subtract(decoded(aggregate), decoded(mean_of(honest))))

    @jitted
    def kappa_ratio(self, deviation: Deviation) -> Array:
        """Of the published bound, where there is one."""
        assert self.passage.bound is not None
        return ratio_to_bound(deviation, self.passage.bound)

    def _keep(
        self, memory: Memory, server: ServerState, slots: Slots, rows: Tree, sent: Tree, travelled: Travelled
    ) -> Memory:
        """Clients remember where the message arrived; once the model is not finite, everything stays as it is.

        `rows` are those of the client method, and `sent` what stages remembered before the round; what they remember behind
        it is among the updates. The rule's own memory changes where the rule takes the row.
        """
        arrived, kept, name = travelled.arrived, travelled.kept, self.passage.of_memory
        rows = {CLIENT: rows, **dict(kept.memory)}
        if not jax.tree.leaves(rows):
            return memory
        if name is not None:
            skipped = self._skips(jnp.sum(kept.arrived, dtype=jnp.int32)) if not self.folds else False
            rows[name] = tree.select(kept.arrived & ~jnp.asarray(skipped), rows[name], sent[name])
        alive = is_finite(server.shared["params"])
        return self.memories.scatter(memory, slots, rows, arrived.arrived & alive)

    def _skips(self, usable: Array) -> Array:
        """Whether a round with so many rows for the rule changes nothing."""
        skipped = usable < self.least
        return skipped if self.most is None else skipped | (usable > self.most)

    def _nothing(self, rows: Rows, remembered: Tree, server: ServerState, slots: Slots, info: RoundInfo) -> Folded:
        assert self.rule.fold is not None
        updates = received(rows, None, slots, remembered)
        none = Counts(*[jnp.zeros((), jnp.int32)] * 3)
        travelled = jax.eval_shape(self.passage.through, updates, server, slots, info)
        silent, unsent = no_reports(travelled.info), jnp.zeros(self.rows, jnp.int32)
        rule = self.rule.fold.zero(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), travelled.kept))
        return Folded(rule, sections.nothing(updates, self.client), none, silent, unsent)

    def _fold(
        self,
        total: Folded,
        server: ServerState,
        memory: Memory,
        updates: Updates,
        remembered: Tree,
        slots: Slots,
        info: RoundInfo,
        first: Int[Array, ""] | int,
    ) -> tuple[Folded, Memory]:
        assert self.rule.fold is not None
        travelled = self.passage.through(updates, server, slots, info)
        arrived, kept, bad, _, reports = travelled
        memory = self._keep(memory, server, slots, remembered, updates.memory, travelled)
        total = Folded(
            self.rule.fold.add(total.rule, kept, self.passage.context(server, slots, info, Phase.RULE)),
            sections.more(total.sections, kept, arrived, self.rule.weights(kept), slots.work.lr_sum),
            jax.tree.map(jnp.add, total.counts, count_rows(kept, bad, slots)),
            add_reports(total.info, reports),
            placed_bytes(total.bytes, arrived, slots, first),
        )
        return total, memory

    def _close_fold(self, total: Folded, server: ServerState, memory: Memory, slots: Slots, info: RoundInfo) -> Closed:
        fold = self.rule.fold
        assert fold is not None
        reduce = lambda state, context: fold.finish(total.rule, state, context)
        _, aggregate, state, reports = self.passage.closed(reduce, server.state, total.info, server, slots, info)
        return Closed(None, aggregate, state, total.sections, total.counts, memory, reports, total.bytes)

    def _close_stack(self, total: Gathered, server: ServerState, memory: Memory, info: RoundInfo) -> Closed:
        updates, slots = total.updates, total.slots
        travelled = self.passage.through(updates, server, slots, info)
        arrived, kept, bad, states, reports = travelled
        reduce = lambda state, context: self.rule.apply(kept, state, context)
        summed = add_reports(no_reports(reports), reports)
        reduced, aggregate, state, reports = self.passage.closed(reduce, states, summed, server, slots, info)
        memory = self._keep(memory, server, slots, total.memory, updates.memory, travelled)
        none = sections.nothing(kept, self.client)
        sums = sections.more(none, kept, arrived, self.rule.weights(kept), slots.work.lr_sum)
        counts, sent = count_rows(kept, bad, slots), placed_bytes(jnp.zeros(self.rows, jnp.int32), arrived, slots, 0)
        return Closed(reduced, aggregate, state, sums, counts, memory, reports, sent)
