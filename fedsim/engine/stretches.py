"""The host's half of stretches: which rounds are one device call, and what the device reads."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fedsim import tree
from fedsim.engine.layout import Layout, lay_out
from fedsim.engine.pieces import CALL_SECONDS
from fedsim.engine.run import Run
from fedsim.engine.server_records import ServerState
from fedsim.engine.slots import RunCohort
from fedsim.engine.stretch import DispatchedStretch, Rounds, stretch
from fedsim.engine.threads import run_in_threads
from fedsim.fleet import Planner, RoundPlan
from fedsim.tree import Tree

MAX_ROUNDS = 64  # of a stretch
MAX_BYTES = 1 << 26  # of what a stretch holds of its rounds and versions
TRIAL_ROUNDS = 8  # that are timed, after a first one that compiles


class Stretches:
    """The stretches of runs whose servers take one message a round.

    Args:
      most: rounds of a stretch at most.

    Attributes:
      longest: rounds of the next stretch at most: not more than take half of CALL_SECONDS.
    """

    def __init__(self, runs: Sequence[Run], data: list, most: int):
        self.runs = runs
        self.data = data[0]
        self.most = most
        self.longest = 1
        self.calls = 0

    def dispatch(
        self, numbers: range, playing: Sequence[bool], servers: Sequence[ServerState]
    ) -> list[DispatchedStretch | None]:
        """Dispatch the rounds of these numbers, at most `longest`.

        Args:
          servers: of every run at the start of the first round.

        Returns:
          The stretch of every run; None where it takes no part.
        """
        calls = []
        programs = []
        for run, plays, server in zip(self.runs, playing, servers, strict=False):
            if plays:
                calls.append((self, run, server, numbers))
                programs.append(_program(run))

        began = time.perf_counter()
        dispatched = iter(run_in_threads(_dispatch, calls, programs))
        stretches = [next(dispatched) if plays else None for plays in playing]
        self._time(stretches, began, len(numbers))
        return stretches

    def _time(self, stretches: list[DispatchedStretch | None], began: float, rounds: int) -> None:
        """Wait for the first two stretches: one compiles, and from the next `longest` is known."""
        self.calls += 1
        if self.calls > 2:
            return
        jax.block_until_ready([each.server for each in stretches if each is not None])
        if self.calls == 1:
            self.longest = min(TRIAL_ROUNDS, self.most)
            return
        seconds = (time.perf_counter() - began) / rounds
        in_time = int(CALL_SECONDS / 2 / seconds)
        self.longest = max(1, min(self.most, in_time))


def stretches_of(runs: Sequence[Run], data: list | None) -> Stretches | None:
    """Return the stretches of runs; None where rounds are better dispatched one by one.

    Args:
      data: the training samples on the device; None: they come block by block.
    """
    if data is None or not all(_has_stretches(run) for run in runs):
        return None
    most = min(_most_rounds(run) for run in runs)
    return Stretches(runs, data, most) if most > 1 else None


def _has_stretches(run: Run) -> bool:
    """Whether a round of a run is one message, and nothing but training and the server's step.

    A run may end in the middle of a stretch, which leaves a server for each of its rounds, but not
    a memory of the clients: a run whose stages remember clients has no stretches.
    """
    program = run.program
    timetable = run.plan.timetable
    one_message = timetable.asynchronous and timetable.buffer == 1
    remembers = run.row_bytes() > 0
    needs_more = (
        program.observer is not None
        or program.probe_mesh is not None
        or program.mesh.devices is not None
        or program.mesh.shards > 1
        or program.server.client.bank is not None
        or run.keep_updates is not None
        or run.feedback_names
        or run.own_training is not None
    )
    return one_message and not remembers and not needs_more


def _most_rounds(run: Run) -> int:
    """Return how many rounds a stretch of a run has at most."""
    capacity = run.program.capacity
    version = tree.nbytes(run.server.shared)
    state = tree.nbytes(run.server.state)
    batches = 4 * capacity.steps * run.program.width.lanes * run.plan.batch_rows
    free = MAX_BYTES - _table_rows(run) * version
    return min(MAX_ROUNDS, run.every, free // (2 * version + state + batches))


def _table_rows(run: Run) -> int:
    """Return the versions that are needed at any time: the newest, and one for every client."""
    return run.plan.timetable.concurrency + 1


def _program(run: Run) -> Any:
    mixes = run.plan.timetable.mixing is not None
    return stretch(run.program.mesh.lanes, run.program.server, mixes)


def _dispatch(
    stretches: Stretches, run: Run, server: ServerState, numbers: range
) -> DispatchedStretch:
    versions = run.form.versions
    assert versions is not None
    rows = _table_rows(run)
    first, last = numbers[0], numbers[-1]
    table, row_of = versions.table(_needed_versions(run.planner, first - 1), rows)

    # The version that a round of the stretch makes is the row behind the table and earlier rounds.
    row_of |= {number: rows + i for i, number in enumerate(numbers)}
    cohorts = [run.planner.round(number) for number in numbers]
    layouts = _layouts(run, cohorts)
    planned = _planned(run, cohorts, layouts, row_of, stretches.most)

    retained = _needed_versions(run.planner, last)
    retained_rows = np.zeros(rows, np.int32)
    retained_rows[: len(retained)] = [row_of[version] for version in retained]

    memory, _ = run.store.load(cohorts[0].ids)
    result = _program(run).run(
        table,
        planned,
        run.round_start(server, first),
        memory,
        stretches.data,
        len(numbers),
        retained_rows,
    )
    versions.add_table(result.table, {version: row for row, version in enumerate(retained)})
    lanes = run.program.width.lanes
    return DispatchedStretch(
        cohorts=cohorts,
        lane_steps=[layout.steps * lanes for layout in layouts],
        outcomes=result.outcomes,
        server=result.server,
    )


def _needed_versions(planner: Planner, round: int) -> list[int]:
    """Return the versions that later rounds need after this one, rising."""
    steps = planner.plan.timetable.steps
    assert steps is not None
    in_flight = steps.versions_in_flight(planner.state_after(round))
    return sorted({*in_flight, round})


def _layouts(run: Run, cohorts: Sequence[RoundPlan]) -> list[Layout]:
    """Lay out rounds in equal shapes."""
    program = run.program

    def laid_out(steps: int) -> list[Layout]:
        capacity = program.capacity._replace(steps=steps)
        layouts = []
        for cohort in cohorts:
            layouts.append(
                lay_out(
                    [RunCohort(run.plan, cohort)],
                    first_slot=0,
                    width=program.width,
                    capacity=capacity,
                    dtype=program.dtype,
                    pack=program.pack,
                )
            )
        return layouts

    layouts = laid_out(program.capacity.steps)
    longest = max(len(layout.queues.valid) for layout in layouts)
    if longest > program.capacity.steps:  # some do not fit
        layouts = laid_out(longest)
    return layouts


def _planned(
    run: Run,
    cohorts: Sequence[RoundPlan],
    layouts: Sequence[Layout],
    row_of: dict[int, int],
    most: int,
) -> Rounds:
    """Return what the device reads of a stretch.

    Args:
      row_of: row of the table of models, by version.
      most: rounds that the others are padded to.
    """
    share_of_age = run.plan.timetable.mixing
    starts = []
    shares = []
    for cohort in cohorts:
        version = cohort.round - 1
        share = 0.0
        if len(cohort.ids):
            version = int(cohort.start[0])
            share = share_of_age(cohort.age[0]) if share_of_age is not None else 0.0
        starts.append(row_of[version])
        shares.append(share)

    def padded(*leaves: Any) -> np.ndarray:
        stacked = np.zeros((most, *np.shape(leaves[0])), np.asarray(leaves[0]).dtype)
        stacked[: len(leaves)] = leaves
        return stacked

    def by_round(trees: Sequence[Tree]) -> Tree:
        return jax.tree.map(padded, *trees)

    return Rounds(
        queues=by_round([layout.queues for layout in layouts]),
        slots=by_round([layout.slots for layout in layouts]),
        steps=padded(*[np.int32(layout.steps) for layout in layouts]),
        start=padded(*[np.int32(start) for start in starts]),
        share=padded(*[run.program.dtype.type(share) for share in shares]),
    )
