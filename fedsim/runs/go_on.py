"""A run that goes on from a round of another run, as another scenario: a fork.

The original is replayed from its record up to that round, row by row against what it wrote, and the
fork begins with its rows and its state. So two forks of a run, or a fork and its original, have all
rounds until then in common, under every seed.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk.checkpoint import Snapshot
from fedsim.engine.run import Run
from fedsim.errors import CheckpointError
from fedsim.installed import modules_with
from fedsim.runs.ended import EndedRun
from fedsim.runs.execute import Beginning
from fedsim.runs.replay import RecordedSeed, replayed_to
from fedsim.runs.result import Result
from fedsim.runs.run import Options, run_from
from fedsim.scenario import Scenario

SERVER = "server"  # what of a fork may start fresh
SERVER_STATE = "server.state"  # names of the arrays of stages, rule and optimisers begin so


class Point(NamedTuple):
    """Where a fork begins.

    Attributes:
      round: the last round in common.
      fresh: `server`, where what stages, rule and optimisers remember begins anew.
    """

    round: int
    fresh: tuple[str, ...] = ()


def go_on(
    original: EndedRun,
    scenario: Scenario,
    point: Point,
    out: str | os.PathLike[str],
    options: Options,
    progress: bool | None,
) -> Result:
    """Run a scenario from the state of the original after a round."""
    _require_fork(original, scenario, point.round)
    states = _states(original, point.round, scenario.spec.seeds)
    where = f"{original.path}: round {point.round}"

    def beginning(experiment: Experiment, record: Mapping[str, Any], seed: int) -> Beginning:
        _require_same_start(original, record, seed)
        recorded, snapshot = states[seed]
        fitted = _fitted(experiment, seed, snapshot, point.fresh, where)
        return Beginning(fitted, _rows_until(recorded, point.round))

    entry = {"scenario": original.record["hashes"]["scenario"], "round": point.round}
    if point.fresh:
        entry["fresh"] = list(point.fresh)
    forking = options._replace(fork=entry, beginning=beginning, threads=original.threads)
    return run_from(scenario, out, forking, progress)


def _require_fork(original: EndedRun, scenario: Scenario, round: int) -> None:
    """Refuse a scenario that cannot go on from a round of the original."""
    path = original.path
    before = original.scenario.spec
    after = scenario.spec
    if after.rounds <= round:
        raise CheckpointError(f"{path}: round {round}: the fork has {after.rounds} rounds in all")
    if after.fleet.without != before.fleet.without and after.schedule.kind != "sync":
        text = "clients that leave may be on their way; fleet.without needs schedule: sync"
        raise CheckpointError(f"{path}: {text}")
    if after.numerics != before.numerics:
        raise CheckpointError(f"{path}: the fork has another section numerics; remove the edit")

    for module in modules_with("GOES_ON"):
        why = module.forked(before, after)
        if why:
            raise CheckpointError(f"{path}: {why}")


def _states(
    original: EndedRun, round: int, seeds: Sequence[int]
) -> dict[int, tuple[RecordedSeed, Snapshot]]:
    """The recorded seeds, and their states after a round of the original, by seed."""
    recorded_seeds = original.recorded(seeds)
    states = {}
    with original.numerics() as devices:
        experiment = original.build(devices)
        for seed, recorded in zip(seeds, recorded_seeds, strict=True):
            states[seed] = (recorded, replayed_to(recorded, experiment, round))
    return states


def _require_same_start(original: EndedRun, record: Mapping[str, Any], seed: int) -> None:
    """Refuse a fork with other clients or another start model than the original."""
    texts = {"partition": "the samples of clients", "start": "what the server starts with"}
    for name, text in texts.items():
        if record["hashes"][name][str(seed)] != original.record["hashes"][name][str(seed)]:
            reason = f"{text} (seed {seed}) differs from the original's"
            raise CheckpointError(f"{original.path}: {reason}; a fork cannot change it")


def _fitted(
    experiment: Experiment, seed: int, snapshot: Snapshot, fresh: Sequence[str], where: str
) -> Snapshot:
    """The state of the original as one that the fork's run can resume from."""
    run = experiment.run(seed)
    try:
        expected = run.snapshot(portable=True).arrays
        arrays = dict(snapshot.arrays)
        if SERVER in fresh:
            arrays = {n: a for n, a in arrays.items() if not n.startswith(SERVER_STATE)}
            arrays |= {n: a for n, a in expected.items() if n.startswith(SERVER_STATE)}
        _require_same_shapes(arrays, expected, where)
        fitted = Snapshot(snapshot.values, arrays)
        _try(run, fitted, where)
        return fitted
    finally:
        run.release()


def _require_same_shapes(
    arrays: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], where: str
) -> None:
    """Refuse a state that holds more or less than the fork's run, or another model."""
    for name in dict(arrays) | dict(expected):
        # How many clients have rows differs from round to round; and so do messages on their way.
        if not name.startswith(("server", "downlink")):
            continue
        if name in arrays and name in expected and arrays[name].shape == expected[name].shape:
            continue
        remedy = "a fork cannot change it"
        if name.startswith(SERVER_STATE):
            remedy = "begin it anew with --fresh server (fresh=['server'])"
        raise CheckpointError(f"{where}: {name} is another in the fork; {remedy}")


def _try(run: Run, snapshot: Snapshot, where: str) -> None:
    """Resume a run from a snapshot, or say that it does not fit."""
    try:
        run.restore(snapshot)
    except (CheckpointError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        reason = "clients, rules or the schedule remember something else in the fork"
        raise CheckpointError(f"{where}: {reason}; a fork cannot change that") from None


def _rows_until(recorded: RecordedSeed, round: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of a seed up to a round, by table."""
    rows = {}
    for table in ("rounds", "timing"):
        rows[table] = [row for row in recorded.tables.get(table, []) if row["round"] <= round]
    return rows
