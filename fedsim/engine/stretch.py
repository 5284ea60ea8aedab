"""Stretches: rounds of one message each, many of them in one device call.

A server that takes one message a round (`fedasync`, `fedbuff(buffer: 1)`) would spend more time
on the way to the device and back than on a small model. Who reports in which round, and from which
version of the model, is known before anything is computed. So the rounds of a *stretch* are one
loop on the device, and each does what `run_round` does, in the same order and to the same bits.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim import tree
from fedsim.engine.lanes import LaneInputs, Lanes, Rows
from fedsim.engine.layout import Queues
from fedsim.engine.memory import CLIENT, Memory
from fedsim.engine.records import DispatchedRound
from fedsim.engine.server import Server
from fedsim.engine.server_records import (
    Messages,
    RoundReport,
    RoundStart,
    ServerState,
    ServerUpdate,
    TrainStats,
)
from fedsim.engine.slots import Slots
from fedsim.engine.threads import jit_for_threads
from fedsim.fleet import RoundPlan
from fedsim.types import Mixing, Shared


class Rounds(NamedTuple):
    """What the device reads of the rounds of a stretch, by round `[G, ...]`."""

    queues: Queues
    slots: Slots
    steps: Any  # [G] lane steps
    start: Any  # [G] row of the table of models that the client trains from
    share: Any  # [G] of the client's model in the mix, where the schedule mixes models


class Outcome(NamedTuple):
    """What a round leaves for the host; of a stretch by round `[G, ...]`."""

    server: ServerState
    report: RoundReport
    stats: TrainStats


class StretchResult(NamedTuple):
    """What a stretch makes."""

    outcomes: Outcome  # by round
    server: ServerState  # after the last round
    table: Shared  # the retained versions


class _Progress(NamedTuple):
    """What the loop over the rounds carries."""

    round: Int[Array, ""] | int
    models: Shared  # [W + G, ...] the versions of before, and one for every round
    server: ServerState
    outcomes: Outcome


class DispatchedStretch(NamedTuple):
    """A run's stretch that was dispatched; the device may still be computing it."""

    cohorts: Sequence[RoundPlan]
    lane_steps: Sequence[int]  # of every round
    outcomes: Outcome
    server: ServerState  # after the last round

    @property
    def cohort(self) -> RoundPlan:
        """The cohort of the last round."""
        return self.cohorts[-1]

    def rounds(self) -> list[DispatchedRound]:
        """Wait for the device, and return the rounds."""
        outcomes = jax.device_get(jax.block_until_ready(self.outcomes))
        last = len(self.cohorts) - 1
        rounds = []
        for i, cohort in enumerate(self.cohorts):
            server, report, stats = tree.take(outcomes, i)
            rounds.append(
                DispatchedRound(
                    cohort=cohort,
                    server=self.server if i == last else server,
                    report=report,
                    stats=(stats,),
                    steps=int(cohort.steps.sum()),
                    lane_steps=self.lane_steps[i],
                    sent_bytes=(report.bytes,),
                    loss_bytes=0,
                    received_bytes=None,
                )
            )
        return rounds


class Stretch:
    """The program of a stretch.

    Args:
      mixes: whether the schedule mixes models.
    """

    def __init__(self, lanes: Lanes, server: Server, mixes: bool):
        self.lanes = lanes
        self.server = server
        self.mixes = mixes
        self.run = jit_for_threads(self._run)
        self.one_round = jax.jit(self._one_round)  # inside of `run`, which needs it twice

    def _run(
        self,
        table: Shared,
        rounds: Rounds,
        start: RoundStart,
        memory: Memory,
        data: tuple[Array, Array],
        count: int,
        retained: Int[Array, " W"],
    ) -> StretchResult:
        """Do the rounds of a stretch.

        Args:
          table: versions of the model from before the stretch `[W, ...]`.
          memory: the clients' memory, in which they remember nothing.
          count: rounds to do; the others are padding.
          retained: the versions to retain, as rows of `table` and of the models after each round,
            one after the other.
        """
        W = tree.rows(table)
        G = len(rounds.steps)
        of_round = functools.partial(self.one_round, memory=memory, data=data)

        def empty(shape: jax.ShapeDtypeStruct) -> Array:
            return jnp.zeros((G, *shape.shape), shape.dtype)

        def next_round(i: Int[Array, ""], progress: _Progress) -> _Progress:
            planned = tree.take(rounds, i)
            model = tree.take(progress.models, planned.start)
            begin = start._replace(server=progress.server, round=progress.round)
            update, stats = of_round(planned, model, begin)
            outcome = Outcome(update.server, update.report, stats)
            return _Progress(
                round=progress.round + 1,
                models=tree.put(progress.models, W + i, update.server.shared),
                server=update.server,
                outcomes=tree.put(progress.outcomes, i, outcome),
            )

        shapes, stats = jax.eval_shape(of_round, tree.take(rounds, 0), tree.take(table, 0), start)
        outcome = Outcome(shapes.server, shapes.report, stats)
        outcomes = jax.tree.map(empty, outcome)
        models = tree.concatenate([table, outcomes.server.shared])
        progress = _Progress(start.round, models, start.server, outcomes)
        progress = jax.lax.fori_loop(0, count, next_round, progress)
        return StretchResult(
            outcomes=progress.outcomes,
            server=progress.server,
            table=tree.take(progress.models, retained),
        )

    def _one_round(
        self,
        planned: Rounds,
        model: Shared,
        start: RoundStart,
        memory: Memory,
        data: tuple[Array, Array],
    ) -> tuple[ServerUpdate, TrainStats]:
        """Do ONE round: train the client from its model, receive its message, step.

        The barriers keep XLA from fusing what are programs of their own in `run_round`, so that
        the bits are the same.
        """
        server = self.server
        slots = planned.slots
        nothing = dict(memory.rows)  # by owner; every row is an empty tree
        of_method = nothing.pop(CLIENT)

        # Two start models, of which slot 0 has the first: lanes then draw by `Slots.draw`.
        inputs = LaneInputs(
            bank=(model, model),
            memory=of_method,
            queues=planned.queues,
            slots=slots,
            data=data,
            keys=((start.root,), start.round),
            frozen=start.frozen,
        )
        rows = jax.lax.optimization_barrier(self._trained(inputs, planned.steps))

        if self.mixes:
            params = server.pipeline.shared_params(model)
            start = start._replace(mixing=Mixing(params, planned.share))
        messages = Messages(rows, slots, nothing)
        received = server.aggregator.add(None, memory, messages, start, 0)
        received, memory, stats = jax.lax.optimization_barrier(received)
        update = server.update(received, memory, slots, start)
        return jax.lax.optimization_barrier((update, stats))

    def _trained(self, inputs: LaneInputs, steps: Int[Array, ""]) -> Rows:
        lane, row = self.lanes.shapes(
            inputs.bank, inputs.memory, inputs.queues, inputs.slots, inputs.frozen
        )
        seats = len(inputs.slots.weight)
        lanes = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), lane)
        rows = jax.tree.map(lambda leaf: jnp.zeros((seats, *leaf.shape), leaf.dtype), row)
        first = jnp.zeros((), jnp.int32)
        _, rows, _ = self.lanes.train(inputs, lanes, rows, first, steps, first)
        return rows


stretch = functools.lru_cache(64)(Stretch)
