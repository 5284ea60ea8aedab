"""`fedsim fork`: a run that goes on from a round of another run, as another scenario.

The original is replayed from its record up to that round, row by row against what it wrote, and the
fork begins with its rows and its state. So two forks of a run, or a fork and its original, have all
rounds until then in common, under every seed.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk.checkpoint import Snapshot
from fedsim.engine.run import Run
from fedsim.errors import CheckpointError
from fedsim.runs.ended import EndedRun, demand, ended_run
from fedsim.runs.execute import Beginning, Watch
from fedsim.runs.given import Given
from fedsim.runs.replay import RecordedSeed, replayed_to
from fedsim.runs.result import Result
from fedsim.runs.run import Options, run_from, seed_edits, texts_of
from fedsim.scenario import Scenario, read
from fedsim.scenario.load import confined

SERVER = "server"  # what of a fork may start fresh
SERVER_STATE = "server.state"  # names of the arrays of stages, rule and optimisers begin so


class Point(NamedTuple):
    """Where a fork begins.

    Attributes:
      round: the last round in common.
      fresh: `server`, where what stages, rule and optimisers remember begins anew.
    """

    round: int
    fresh: tuple[str, ...]


def fork(
    path: str | os.PathLike[str],
    *,
    round: int,
    out: str | os.PathLike[str],
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    edits: str | Sequence[str] = (),
    method: Any = None,
    seeds: int | Sequence[int] | None = None,
    fresh: Sequence[str] = (),
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
    watch: Watch | None = None,
    progress: bool | None = None,
    ask: Callable[[], bool] = lambda: False,
    pictures: bool = True,
) -> Result:
    """Go on from a round of a finished run as another scenario.

    With nothing set, the fork is the original byte for byte. Its directory is that of a run, which
    `verify` replays.

    Args:
      path: the directory of the original, one run of one method.
      round: the last round that both have in common, from 1 to the one before the original's last.
      out: the directory of the fork.
      data: what `fedsim.run` was given, if it was.
      model: likewise.
      params: likewise.
      loss: likewise.
      edits: one or several `PATH=VALUE` texts, as `--set` takes them: another rule, attack, cohort,
        codec ...
      method: a method that replaces what it owns.
      seeds: some of the original's seeds: a number n (0 to n − 1) or a sequence; left out: all.
      fresh: `["server"]` begins what stages, rule and optimisers remember anew, which has to be
        where the fork has others.
      force: replace an earlier run in `out`.
      resume: continue the fork there, which was interrupted.
      device: compute on these, as `fedsim.run` takes it.
      data_roots: folders that the record may name data files in, besides the working directory.
      watch: called as in `fedsim.run`.
      progress: as in `fedsim.run`.
      ask: as in `fedsim.run`.
      pictures: as in `fedsim.run`.

    Returns:
      Frames, models and states of the fork, as `fedsim.run` returns them; rows until `round` are
      the original's.

    Raises:
      ScenarioError: for a scenario that cannot be run as written.
      DirectoryError: where there is no run that can be forked, and for `out` as in `fedsim.run`.
      CheckpointError: where the fork shapes differently what the state holds, and where the
        original cannot be repeated here.
    """
    started = time.monotonic()
    unknown = set(fresh) - {SERVER}
    if unknown:
        raise ValueError(f"fresh: expected server; found {', '.join(sorted(map(str, unknown)))}")

    given = Given(data, model, params, loss)
    original = ended_run(Path(path), device, data_roots, "fork", "fork", given)
    last = original.record["scenario"]["rounds"]
    if not 1 <= round < last:
        raise CheckpointError(f"{path}: round {round}: a fork begins after round 1 to {last - 1}")

    scenario = read(original.scenario.document, (*texts_of(edits), *seed_edits(seeds)), method)
    scenario = confined(scenario, original.path, data_roots)
    options = Options(
        started=started,
        given=given,
        build_options={},
        calls=None,
        force=force,
        resume=resume,
        device=device,
        watch=watch,
        progress=None,
        ask=ask,
        trackers=[],
        pictures=pictures,
    )
    return _go_on(original, scenario, Point(round, tuple(fresh)), out, options, progress)


def fork_again(
    path: Path,
    scenario: Scenario,
    entry: Mapping[str, Any],
    out: Path,
    options: Options,
    data_roots: Iterable[str | os.PathLike[str]],
) -> Result:
    """Fork a run as a recorded fork did.

    Args:
      path: the directory of the original.
      scenario: the fork's.
      entry: what its record says of the fork.
      out: the directory of the new fork.
      options: how it is run.
      data_roots: folders that may hold the data of the original.

    Raises:
      CheckpointError: as `fork`.
    """
    original = ended_run(path, options.device, data_roots, "fork", "fork", options.given)
    point = Point(entry["round"], tuple(entry.get("fresh", ())))
    return _go_on(original, scenario, point, out, options, progress=False)


def _go_on(
    original: EndedRun,
    scenario: Scenario,
    point: Point,
    out: str | os.PathLike[str],
    options: Options,
    progress: bool | None,
) -> Result:
    """Run a scenario from the state of the original after a round; see `fork`."""
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
    """Refuse a scenario that cannot go on from a round of the original.

    Raises:
      CheckpointError: naming the section.
    """
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

    # ε composes over all rounds, and is counted as if all were like those of the fork.
    is_private = any(spec.privacy or spec.client.dp_sgd for spec in (before, after))
    spent = lambda spec: (spec.privacy, spec.client.dp_sgd, spec.cohort, spec.rounds)
    if is_private and spent(before) != spent(after):
        text = "ε of a private run is counted for one privacy, cohort and number of rounds"
        raise CheckpointError(f"{path}: {text}; a fork cannot change them")


def _states(
    original: EndedRun, round: int, seeds: Sequence[int]
) -> dict[int, tuple[RecordedSeed, Snapshot]]:
    """The recorded seeds, and their states after a round of the original, by seed.

    Raises:
      CheckpointError: for seeds that the original does not have, and where its rows do not come out
        again.
    """
    path = original.path
    recorded_seeds = original.recorded(seeds)
    states = {}
    with original.numerics() as devices:
        experiment = original.build(devices)
        for seed, recorded in zip(seeds, recorded_seeds, strict=True):
            snapshot, problems = replayed_to(recorded, experiment, round)
            demand(path, [f"seed {seed}: {problem}" for problem in problems])
            states[seed] = (recorded, snapshot)
    return states


def _require_same_start(original: EndedRun, record: Mapping[str, Any], seed: int) -> None:
    """Refuse a fork with other clients or another start model than the original.

    Raises:
      CheckpointError: naming what differs.
    """
    texts = {"partition": "the samples of clients", "start": "what the server starts with"}
    for name, text in texts.items():
        if record["hashes"][name][str(seed)] != original.record["hashes"][name][str(seed)]:
            reason = f"{text} (seed {seed}) differs from the original's"
            raise CheckpointError(f"{original.path}: {reason}; a fork cannot change it")


def _fitted(
    experiment: Experiment, seed: int, snapshot: Snapshot, fresh: Sequence[str], where: str
) -> Snapshot:
    """The state of the original as one that the fork's run can resume from.

    Raises:
      CheckpointError: where the fork's run remembers something else.
    """
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
    """Resume a run from a snapshot, or say that it does not fit.

    Raises:
      CheckpointError: where it does not.
    """
    try:
        run.restore(snapshot)
    except (CheckpointError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        reason = "clients, links or the schedule remember something else in the fork"
        raise CheckpointError(f"{where}: {reason}; a fork cannot change that") from None


def _rows_until(recorded: RecordedSeed, round: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of a seed up to a round, by table."""
    rows = {}
    for table in ("rounds", "timing"):
        rows[table] = [row for row in recorded.tables.get(table, []) if row["round"] <= round]
    return rows
