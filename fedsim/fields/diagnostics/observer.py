"""What is measured of a round on request (`evaluate.diagnostics`)."""

import math
from typing import NamedTuple

import numpy as np

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound, RoundState, TrainedBlock
from fedsim.engine.server_records import Messages, ServerUpdate
from fedsim.engine.summing import Sum
from fedsim.engine.threads import run_in_threads
from fedsim.fields.diagnostics.deviation import Distances, HonestSum
from fedsim.fields.diagnostics.diagnosis import Diagnosis, UpdateSums, add_updates, diagnose


class Measures(Meter):
    """Averages the measures of the rounds since the last row."""

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Add a round; one with too few clients is not finite and says nothing."""
        values = {}
        for name, by_run in dispatched.observed._asdict().items():
            values[name] = float(np.asarray(by_run)[dispatched.index])
        if all(map(math.isfinite, values.values())):
            since.add(diagnosed=1, **values)

    def row(self, round: int, since: Since) -> Columns:
        """Return the means over the rounds that were measured."""
        rounds = since["diagnosed"]
        return {name: since[name] / rounds if rounds else None for name in Diagnosis._fields}


class Measured(NamedTuple):
    """What is measured of the blocks of a round."""

    sums: UpdateSums  # over the updates of all runs
    honest: list[HonestSum | None]  # of every run; None where messages are gathered


class Diagnostics:
    """The observer of a run."""

    def __init__(self, distances: Distances):
        self.distances = distances

    def add(
        self, observed: Measured | None, states: list[RoundState], trained: TrainedBlock
    ) -> Measured:
        """Measure the updates of a block; arguments as of `Observer.add`."""
        first_slot = trained.block.key.first_slot
        sums, honest = observed or (None, [None] * len(states))
        calls = []
        for state, total, messages in zip(states, honest, trained.messages, strict=True):
            calls.append((state, total, messages, first_slot))
        programs = [_distances(state).add for state in states]
        honest = run_in_threads(_with_honest, calls, programs)

        delta = trained.stack.message.delta
        sums = add_updates(sums, delta, trained.slots.weight, runs=len(states))
        return Measured(sums, honest)

    def report(
        self, observed: Measured, states: list[RoundState], updates: list[ServerUpdate | None]
    ) -> tuple[list[ServerUpdate | None], Diagnosis]:
        """Add to the reports how far the aggregates lie from the honest clients.

        Arguments as of `Observer.report`.
        """
        calls = list(zip(states, updates, observed.honest, strict=True))
        programs = [_distances(state).report for state in states]
        updates = run_in_threads(_with_deviation, calls, programs)
        return updates, diagnose(observed.sums)

    def meter(self) -> Measures:
        """Return what averages the measures over rounds."""
        return Measures()


def _distances(state: RoundState) -> Distances:
    observer = state.run.program.observer
    assert isinstance(observer, Diagnostics)
    return observer.distances


def _with_honest(
    state: RoundState, honest: HonestSum | None, messages: Messages, first_slot: int
) -> HonestSum | None:
    """Add the honest rows of a block where the block is summed and forgotten."""
    if not state.has_block(first_slot) or not isinstance(state.received, Sum):
        return honest
    return _distances(state).add(honest, messages, state.start)


def _with_deviation(
    state: RoundState, update: ServerUpdate | None, honest: HonestSum | None
) -> ServerUpdate | None:
    """Add to a run's report how far its aggregate lies from its honest clients."""
    if update is None:
        return None
    assert state.received is not None
    assert state.slots is not None
    deviation = _distances(state).report(
        received=state.received,
        reduced=update.reduced,
        honest=honest,
        slots=state.slots,
        start=state.start,
    )
    info = {**update.report.info, **deviation}
    return update._replace(report=update.report._replace(info=info))
