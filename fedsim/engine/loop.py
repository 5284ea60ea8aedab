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

import numpy as np

from fedsim.engine.blocks import Blocks
from fedsim.engine.pack import capacity
from fedsim.engine.processes import joined
from fedsim.engine.round import CALL_SECONDS, Buffers, Pieces, Played, Program, play
from fedsim.engine.run import Rest, Row, Run
from fedsim.engine.threads import hands
from fedsim.fleet import Plan

MOST = 16  # runs side by side: more fill no lane that these leave idle
ROWS = 1 << 26  # bytes of the stack of all of them together
BATCHES = 1 << 28  # bytes of the batches of all of them together, as the host lays them out
AHEAD = 2  # quick rounds in flight: the host plans while the device works, and never runs away from it

Flying = list[tuple[Run, Played, dict[str, list] | None]]  # what runs played in a round, and their evaluations


def events(
    runs: Sequence[Run],
    program: Program,
    rest: Callable[[int], bool] = lambda r: False,
    calls: int | None = None,
    samples: float = math.inf,
) -> Iterator[tuple[Run, Row] | Rest]:
    """Evaluated rounds as they come, and a `Rest` after every round for which `rest(round)` asks.

    Args:
      runs: over the same training samples; they may have been left after different rounds.
      program: by which they train: their own, or that of `banked`.
      rest: asked after every round.
      calls: device calls per block (None: as long as a call takes about a second); changes no bit.
      samples: bytes of training samples that fit; what does not is handed over block by block, and changes no bit.
    """
    for run in runs:
        yield from ((run, row) for row in run.begin(1 / len(runs)))
    places = [*runs, *[runs[0]] * (program.room.runs - len(runs))]  # the last ones stay empty, so that no shape changes
    f = runs[0].plan.federation
    fits = f.x.nbytes + f.y.nbytes <= samples
    plans = [run.plan for run in places]
    looks = program.first is not None
    blocks = Blocks(plans, program.width, program.room, program.dtype, program.pack, fits, looks)
    data = program.mesh.spread((np.asarray(f.x), f.y)) if fits else None
    servers, at = [run.server for run in runs], [run.round for run in runs]
    buffers, pieces, flying = Buffers(), Pieces(calls), deque[Flying]()
    for r in range(min(at) + 1, max(run.rounds for run in runs) + 1):
        going = [run.status == "running" for run in runs]
        if not any(going):
            return
        plays = [goes and behind == r - 1 for goes, behind in zip(going, at, strict=True)]
        if not any(plays):
            continue
        begin = time.perf_counter()
        table = [run.hand() for run in places]
        for i, now in enumerate(plays):
            table[i] = table[i]._replace(server=servers[i], plays=now)
        played, buffers = play(program, blocks, table, buffers, data, r, pieces)
        here: Flying = []
        for i, one in enumerate(played):
            if one is not None:
                servers[i], at[i] = one.server, r
                here.append((runs[i], one, _evaluated(runs[i], one, r)))
        flying.append(here)
        resting, slow = rest(r), time.perf_counter() - begin > CALL_SECONDS / 2
        careful = any(
            run.empty or run.policy.nonfinite or run.policy.impossible for run in runs
        )  # never past a possible end
        ahead = 0 if resting or slow or careful else AHEAD
        while len(flying) > ahead:
            yield from _settled(flying.popleft())
        if resting and (going_on := [run for run, _, _ in here if run.status == "running"]):
            yield Rest(r, going_on)
    while flying:
        yield from _settled(flying.popleft())


def _evaluated(run: Run, played: Played, r: int) -> dict[str, list] | None:
    """Evaluations on their way to the device, in the rounds that are evaluated."""
    run.message_bytes["up"] = played.message_bytes
    return run.evaluate(played.server) if r % run.every == 0 or r == run.rounds else None


def _settled(flying: Flying) -> Iterator[tuple[Run, Row]]:
    for run, played, tests in flying:
        if run.status == "running":  # else it ended in an earlier round, and this one never happened
            yield from ((run, row) for row in run.settle(played, tests))


def alike(programs: Sequence[Program], plans: Sequence[Plan]) -> bool:
    """Whether runs can be played side by side: they train by one program on the same samples."""
    one, x = programs[0], plans[0].federation.x
    same = all(p.mesh is one.mesh and p.first is one.first and p.width == one.width for p in programs)
    return same and all(plan.federation.x is x for plan in plans)


def banked(
    programs: Sequence[Program], plans: Sequence[Plan], model_bytes: int
) -> tuple[list[tuple[int, int]], Program]:
    """Runs in groups that are best played together -> (first, behind the last) of each group, and the program of all groups.

    Args:
      programs: of the runs.
      plans: of the runs.
      model_bytes: of one of their models.
    """
    program, width, K = programs[0], programs[0].width, programs[0].width.block
    a_stack, a_batch = model_bytes * K * program.room.blocks, 4 * program.room.steps * width.lanes * program.room.batch
    most = min(MOST, ROWS // max(a_stack, 1), BATCHES // max(a_batch, 1), len(plans))
    if most < 2 or joined() or program.solo or not alike(programs, plans):
        return [(i, i + 1) for i in range(len(plans))], program
    count = -(-len(plans) // most)
    groups = list(pairwise(round(len(plans) * g / count) for g in range(count + 1)))
    runs = max(last - first for first, last in groups)
    crews = min(hands(), -(-runs * K // width.lanes))
    wide, first = program.mesh.by(crews), program.first and program.first.by(crews)
    room = capacity([plans[begin:end] for begin, end in groups], width, program.pack, wide.crews)
    return groups, program._replace(mesh=wide, first=first, room=room)
