"""Rounds one after another, of one run or of several side by side, a little ahead of what the host has read.

Runs of one program (seeds, learning rates) that train side by side share the lanes: where one would wait for its longest
client, clients of the others fill the gap, and all cores have work however small the model. Each run keeps its own server,
clock and rows, and none of its bits depends on the company.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedsim.engine.blocks import Blocks
from fedsim.engine.evaluation import Scores
from fedsim.engine.pack import capacity
from fedsim.engine.pieces import CALL_SECONDS, Pieces
from fedsim.engine.processes import joined
from fedsim.engine.records import Played, Program, Round, Space
from fedsim.engine.round import play
from fedsim.engine.run import CommitPoint, Row, Run
from fedsim.engine.threads import device_threads, run_in_threads
from fedsim.fleet import Plan

MOST = 16  # runs side by side: more fill no lane that these leave idle
ROWS = 1 << 26  # bytes of the stack of all of them together
BATCHES = 1 << 28  # bytes of the batches of all of them together, as the host lays them out
AHEAD = 2  # quick rounds on their way: the host plans while the device works, and never runs away from it


class Pending(NamedTuple):
    """A run's round on its way to the device and back, with its evaluation where there is one."""

    run: Run
    played: Played
    tests: dict[str, Scores] | None


def events(
    runs: Sequence[Run],
    program: Program,
    rest: Callable[[int], bool] = lambda r: False,
    calls: int | None = None,
    samples: float = math.inf,
) -> Iterator[tuple[Run, Row] | CommitPoint]:
    """Evaluated rounds as they come, and `CommitPoint` after every round for which `rest(round)` asks.

    Args:
      runs: over the same training samples; they may have been left after different rounds.
      program: by which they train: their own, or that of `banked`.
      rest: asked after every round.
      calls: device calls per block (None: as long as a call takes about a second); changes no bit.
      samples: bytes of training samples that fit; what does not is handed over block by block, and changes no bit.
    """
    for run in runs:
        yield from ((run, row) for row in run.begin(1 / len(runs)))
    places = [
        *runs,
        *[runs[0]] * (program.room.runs - len(runs)),
    ]  # the last ones stay empty, so that no shape changes
    f = runs[0].plan.federation
    resident = f.train.x.nbytes + f.train.y.nbytes <= samples
    data = program.mesh.spread((np.asarray(f.train.x), f.train.y)) if resident else None
    readers = [] if resident else program.mesh.readers(program.width.lanes)
    planners = [run.planner for run in places]
    blocks = Blocks(
        planners,
        program.width,
        program.room,
        program.dtype,
        program.pack,
        readers,
        program.probe is not None,
    )
    servers, reached = [run.server for run in runs], [run.round for run in runs]
    pieces, own_pieces, space, pending = (
        Pieces(calls),
        Pieces(calls),
        Space(),
        deque[list[Pending]](),
    )
    for r in range(min(reached) + 1, max(run.rounds for run in runs) + 1):
        if not any(run.status == "running" for run in runs):
            return
        plays = [
            run.status == "running" and last == r - 1
            for run, last in zip(runs, reached, strict=True)
        ]
        if not any(plays):
            continue
        begin = time.perf_counter()
        states = [
            run.state(server, now) for run, server, now in zip(runs, servers, plays, strict=True)
        ]
        states += [run.state(run.server, plays=False) for run in places[len(runs) :]]
        results, space = play(Round(program, blocks, states, r, data, pieces, own_pieces, space))
        current = _evaluated(
            [
                Pending(run, played, None)
                for run, played in zip(places, results, strict=True)
                if played
            ]
        )
        for i, played in enumerate(results):
            if played is not None:
                servers[i], reached[i] = played.server, r
        pending.append(current)
        resting, slow = rest(r), time.perf_counter() - begin > CALL_SECONDS / 2
        ends = any(
            run.empty or run.policy.nonfinite or run.policy.impossible for run in runs
        )  # perhaps, with this round
        awaited = not all(
            run.planner.ready(r + 1) for run in runs
        )  # the next round depends on what this one reports
        while len(pending) > (0 if resting or slow or ends or awaited else AHEAD):
            yield from _settled(pending.popleft())
        if resting and (left := [run for run, _, _ in current if run.status == "running"]):
            yield CommitPoint(r, left)
    while pending:
        yield from _settled(pending.popleft())


def _evaluated(current: list[Pending]) -> list[Pending]:
    """With the evaluations on their way to the device, where the round is evaluated: of several runs each by one thread."""
    due = [i for i, (run, played, _) in enumerate(current) if run.evaluates(played.cohort.round)]
    calls = [(current[i].run, current[i].played.server, len(due) == 1) for i in due]
    tests = run_in_threads(Run.evaluate, calls, [current[i].run.program.evaluate for i in due])
    for i, results in zip(due, tests, strict=True):
        current[i] = current[i]._replace(tests=results)
    return current


def _settled(pending: list[Pending]) -> Iterator[tuple[Run, Row]]:
    for run, played, tests in pending:
        if (
            run.status == "running"
        ):  # else it ended in an earlier round, and this one never happened
            yield from ((run, row) for row in run.settle(played, tests))


def alike(programs: Sequence[Program], plans: Sequence[Plan]) -> bool:
    """Whether runs can train side by side: by one program, on the same samples."""
    first, f = programs[0], plans[0].federation
    same = all(
        p.mesh is first.mesh and p.probe is first.probe and p.width == first.width for p in programs
    )
    return same and all(
        plan.federation.train.x is f.train.x and plan.federation.train.y is f.train.y
        for plan in plans
    )


def banked(
    programs: Sequence[Program], plans: Sequence[Plan], model_bytes: int
) -> tuple[list[tuple[int, int]], Program]:
    """Runs in groups that are best trained together -> (first, one beyond the last) of each group, and the program of all.

    Args:
      programs: of the runs.
      plans: of the runs.
      model_bytes: of one of their models.
    """
    program, width, K = programs[0], programs[0].width, programs[0].width.block
    stack, batches = (
        model_bytes * K * program.room.blocks,
        4 * program.room.steps * width.lanes * program.room.batch,
    )
    most = min(MOST, ROWS // max(stack, 1), BATCHES // max(batches, 1), len(plans))
    if most < 2 or joined() or program.solo or not alike(programs, plans):
        return [(i, i + 1) for i in range(len(plans))], program
    count = -(-len(plans) // most)
    groups = list(pairwise(round(len(plans) * g / count) for g in range(count + 1)))
    runs = max(last - first for first, last in groups)
    shards = min(device_threads(), -(-runs * K // width.lanes))
    mesh, probe = program.mesh.by(shards), program.probe and program.probe.by(shards)
    room = capacity(
        [plans[begin:end] for begin, end in groups],
        width,
        program.pack,
        mesh.shards,
        mesh.devices is not None,
    )
    return groups, program._replace(mesh=mesh, probe=probe, room=room)
