"""The rounds of one run, or of several side by side, a little ahead of what the host has read.

Runs of one program (seeds, learning rates) that train side by side share the lanes: where one would
wait for its longest client, clients of the others fill the gap, and all cores have work however
small the model is. Each run has its own server, clock and rows, and none of its bits depends on the
other runs.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedsim.engine.blocks import Blocks
from fedsim.engine.frozen import same_frozen
from fedsim.engine.mesh import Buffers, Mesh
from fedsim.engine.models import models_of
from fedsim.engine.pack import capacity
from fedsim.engine.pieces import CALL_SECONDS, Pieces
from fedsim.engine.processes import is_multiprocess
from fedsim.engine.program import Program
from fedsim.engine.records import DispatchedRound
from fedsim.engine.round import run_round
from fedsim.engine.run import CommitPoint, Row, Run
from fedsim.engine.scoring.rows import Tests
from fedsim.engine.stretch import DispatchedStretch
from fedsim.engine.stretches import stretches_of
from fedsim.engine.threads import device_threads, run_in_threads
from fedsim.fleet import Plan
from fedsim.tree import Tree

# Limits of the runs that train side by side.
MAX_RUNS = 16  # runs: more fill no lane that these leave idle
STACK_BYTES = 1 << 26  # of the stack of all of them together
BATCH_BYTES = 1 << 28  # of the batches of all of them together, as the host lays them out

# Quick rounds on their way: the host plans while the device works, but not further ahead.
AHEAD = 2


class Pending(NamedTuple):
    """A run's round on its way to the device and back, with its evaluation where there is one.

    Or its stretch of rounds, with the evaluation of the last one.
    """

    run: Run
    dispatched: DispatchedRound | DispatchedStretch
    tests: Tests | None
    own: dict[str, float | None]  # columns of the clients' scores, where it is evaluated


def events(
    runs: Sequence[Run],
    program: Program,
    rest: Callable[[int], bool] = lambda r: False,
    calls: int | None = None,
    samples: float = math.inf,
) -> Iterator[tuple[Run, Row] | CommitPoint]:
    """Yield evaluated rounds as they come, and the moments for a commit.

    Args:
      runs: runs over the same training samples, which may have been interrupted after different
        rounds; none: there is nothing to do.
      program: the program that trains them: their own, or that of `group_runs`.
      rest: round -> whether to yield a `CommitPoint` after it; called before or after every round.
      calls: device calls per block (None: as many as take about a second each); changes no bit.
      samples: bytes of training samples that fit; if there are more, each block's samples are
        handed over with it, which changes no bit.
    """
    if not runs:
        return
    for run in runs:
        for row in run.start(1 / len(runs)):
            yield run, row

    loop = Loop(runs, program, calls, samples)
    pending = deque[list[Pending]]()
    for numbers in loop.calls(rest):
        if not any(run.status == "running" for run in runs):
            return
        began = time.perf_counter()
        playing = loop.playing(numbers[0])
        if not any(playing):  # a resumed run has been through this round
            continue
        if loop.stretches is None:
            dispatched = run_round(loop, numbers[0], playing)
        else:
            dispatched = loop.stretches.dispatch(numbers, playing, loop.servers)
        current = loop.advance(numbers[-1], dispatched)
        pending.append(current)

        # Quick rounds may run ahead, but not past a commit, nor where the next round depends on
        # what this one reports.
        number = numbers[-1]
        resting = rest(number)
        slow = time.perf_counter() - began > CALL_SECONDS / 2
        ahead = 0 if resting or slow or loop.must_wait(number) else AHEAD
        while len(pending) > ahead:
            yield from _finished(pending.popleft())
        if resting:
            running = [each.run for each in current if each.run.status == "running"]
            if running:
                yield CommitPoint(number, running)

    while pending:
        yield from _finished(pending.popleft())


class Loop:
    """Runs side by side, and their rounds up to the last one that was dispatched.

    Attributes:
      runs: the runs. The program is made for a number of runs; if there are fewer, a run that takes
        no part fills up, so that no shape changes.
      servers: the server of each that may take part, ahead of what the host has read.
      reached: the last round of each of them that was dispatched.
      data: (x, y) of all training samples on the device; None: they stay on the host.
      frozen: leaves of the model that nobody trains, of every shard.
      blocks: the host's half of the rounds.
      pieces: how the clients' training is cut into device calls; likewise `server_pieces`, of the
        servers' own training.
      buffers: those of an earlier block, by the lanes that wrote them, to be reused; their contents
        no longer matter.
      stretches: where several rounds are one device call.
    """

    def __init__(self, runs: Sequence[Run], program: Program, calls: int | None, samples: float):
        self.program = program
        missing = program.capacity.runs - len(runs)
        self.runs = [*runs, *[runs[0]] * missing]
        self.servers = [run.server for run in runs]
        self.reached = [run.round for run in runs]

        # Training samples are on the device if they fit; else those of a block come with it.
        train = runs[0].plan.federation.train
        self.data = None
        readers = []
        if train.x.nbytes + train.y.nbytes <= samples:
            self.data = program.mesh.replicate((np.asarray(train.x), train.y))
        else:
            readers = program.mesh.readers(program.width.lanes)

        # Leaves that nobody trains are on every device once, for all lanes of all runs.
        assert same_frozen([run.frozen for run in runs])
        self.frozen = program.mesh.replicate(runs[0].frozen)

        self.blocks = Blocks([run.planner for run in self.runs], program, readers)
        self.pieces = Pieces(calls)
        self.server_pieces = Pieces(calls)
        self.buffers: dict[Mesh, Buffers] = {}
        self.stretches = stretches_of(runs, self.data)

    def calls(self, rest: Callable[[int], bool]) -> Iterator[range]:
        """Yield the numbers of the rounds that are left, those of one device call together."""
        end = max(run.rounds for run in self.runs)
        first = min(self.reached) + 1
        while first <= end:
            last = first
            if self.stretches is not None:
                most = first + self.stretches.longest - 1
                while last < min(most, end) and not self._must_stop(last, rest):
                    last += 1
            yield range(first, last + 1)
            first = last + 1

    def _must_stop(self, number: int, rest: Callable[[int], bool]) -> bool:
        """Return whether no stretch may go beyond a round.

        It may not where the round is evaluated or committed, or where a resumed run joins.
        """
        evaluated = any(run.evaluates(number) for run in self.runs)
        return evaluated or number in self.reached or rest(number)

    def playing(self, number: int) -> tuple[bool, ...]:
        """Return which runs take part in a round; those that fill up do not."""
        plays = []
        for run, reached in zip(self.runs, self.reached, strict=False):
            plays.append(run.status == "running" and reached == number - 1)
        return (*plays, *[False] * (len(self.runs) - len(plays)))

    def advance(
        self, number: int, dispatched: Sequence[DispatchedRound | DispatchedStretch | None]
    ) -> list[Pending]:
        """Note what was dispatched, up to a round, and dispatch the evaluation after it."""
        pending = []
        for i, of_run in enumerate(dispatched):
            if of_run is not None:
                self.servers[i] = of_run.server
                self.reached[i] = number
                pending.append(Pending(self.runs[i], of_run, tests=None, own={}))
        return _with_evaluations(pending)

    def must_wait(self, number: int) -> bool:
        """Return whether the host must read a round before it can dispatch the next one."""
        for run in self.runs:
            if run.may_end_with(number) or not run.planner.ready(number + 1):
                return True
        return False


def _with_evaluations(pending: list[Pending]) -> list[Pending]:
    """Dispatch the evaluations of a round, where it has any.

    Several runs are evaluated by one thread each, a single one by all threads together.
    """
    due = []
    for i, each in enumerate(pending):
        if each.run.evaluates(each.dispatched.cohort.round):
            due.append(i)

    calls = []
    programs = []
    for i in due:
        run = pending[i].run
        calls.append((run, pending[i].dispatched.server, len(due) == 1))
        programs.append(run.program.evaluate)

    evaluated = list(pending)
    for i, tests in zip(due, run_in_threads(Run.evaluate, calls, programs), strict=True):
        dispatched = pending[i].dispatched
        own = pending[i].run.score_clients(dispatched.server, dispatched.cohort.round)
        evaluated[i] = pending[i]._replace(tests=tests, own=own)
    return evaluated


def _finished(pending: list[Pending]) -> Iterator[tuple[Run, Row]]:
    """Read a round of all runs, or a stretch of each, and yield its rows."""
    for run, dispatched, tests, own in pending:
        if run.status != "running":  # it ended in an earlier round: this one does not count
            continue
        rounds = dispatched.rounds()
        for round in rounds:
            if run.status != "running":  # it ended in an earlier round of the stretch
                break
            is_last = round is rounds[-1]  # the one that is evaluated, where any is
            scored = tests if is_last else None
            of_clients = own if is_last else {}
            for row in run.finish_round(round, scored, of_clients):
                yield run, row


def can_train_together(programs: Sequence[Program], plans: Sequence[Plan]) -> bool:
    """Return whether runs can train side by side: by one program, on the same samples."""
    first = _common_half(programs[0])
    if any(_common_half(program) != first for program in programs):
        return False
    train = plans[0].federation.train
    return all(
        plan.federation.train.x is train.x and plan.federation.train.y is train.y for plan in plans
    )


def _common_half(program: Program) -> tuple:
    """What runs side by side have in common of their programs; the rest is each run's own."""
    return program.mesh, program.probe_mesh, program.width, type(program.observer)


def group_runs(
    programs: Sequence[Program],
    plans: Sequence[Plan],
    model_bytes: int,
    frozen: Sequence[Tree] = ((),),
) -> tuple[list[tuple[int, int]], Program]:
    """Group the runs that are best trained side by side.

    Args:
      plans: the runs' plans, with batches of equal width.
      frozen: leaves of their models that nobody trains; runs side by side have them in common.

    Returns:
      (first, one beyond the last) of each group, and the program that trains all groups.
    """
    program = programs[0]
    largest = min(_max_runs(program, plans[0], model_bytes), len(plans))
    if (
        largest < 2
        or is_multiprocess()
        or program.trains_alone
        or program.server.pipeline.rule.adapter.merges  # each run has weights of its own
        or not can_train_together(programs, plans)
        or not same_frozen(frozen)
    ):
        return [(i, i + 1) for i in range(len(plans))], program

    # Groups of about equal size.
    count = -(-len(plans) // largest)
    ends = [round(len(plans) * group / count) for group in range(count + 1)]
    groups = list(pairwise(ends))
    runs = max(last - first for first, last in groups)

    # Enough shards for the clients of all runs, in the shapes that they need.
    width = program.width
    shards = min(device_threads(), -(-runs * width.block // width.lanes))
    mesh = program.mesh.with_shards(shards)
    probe_mesh = program.probe_mesh
    if probe_mesh is not None:
        probe_mesh = probe_mesh.with_shards(shards)
    shared_capacity = capacity(
        [plans[first:last] for first, last in groups],
        width=width,
        pack=program.pack,
        shards=mesh.shards,
        samples_by_shard=mesh.devices is not None,
        models=models_of(program.server.client),
    )
    return groups, program._replace(mesh=mesh, probe_mesh=probe_mesh, capacity=shared_capacity)


def _max_runs(program: Program, plan: Plan, model_bytes: int) -> int:
    """Return how many runs may train side by side, by the memory that they take."""
    shapes = program.capacity
    stack = model_bytes * program.width.block * shapes.blocks
    batches = 4 * shapes.steps * program.width.lanes * plan.batch_rows
    return min(MAX_RUNS, STACK_BYTES // max(stack, 1), BATCH_BYTES // max(batches, 1))
