"""A seed as a run directory records it, and played again in a temporary folder, to be compared.

It is played by what runs any scenario, so that the folder holds a log, commits, kept updates and a
model as well: they have to be the recorded ones, bit by bit. Nothing is written into the directory.
"""

import contextlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot
from fedsim.disk.rowfile import RowFile
from fedsim.disk.tables import Record
from fedsim.engine.run import Row, Run
from fedsim.errors import CheckpointError, CorruptError, Interrupted
from fedsim.runs.commits import LOG, Commit, commit_files, read_commit, read_log
from fedsim.runs.diff import models_differ, tables_differ
from fedsim.runs.differences import differences
from fedsim.runs.execute import JournaledRun, PlannedExperiment, execute, restore
from fedsim.runs.filenames import RunFiles, label_of, run_files_of
from fedsim.runs.record import identity
from fedsim.runs.unfinished import csv_of
from fedsim.runs.update_files import UpdateFiles
from fedsim.study.row_differences import RowDifferences

CHUNK_BYTES = 1 << 26  # of client memory that are compared at a time


class RecordedSeed(NamedTuple):
    """One seed as a run directory records it.

    Attributes:
      record: the record of its run; of a comparison's, as if it had been run alone.
      who: the first columns of its rows: method and seed, in a comparison also what varies.
      commits: its commits, oldest first; the last one is the end.
    """

    run_files: RunFiles
    record: dict[str, Any]
    who: Record
    tables: dict[str, list[Record]]
    commits: list[Commit]

    @property
    def rows(self) -> list[Record]:
        """Its rows of `rounds.csv`."""
        return self.tables.get("rounds", [])

    @property
    def end(self) -> dict[str, Any]:
        """Plain values of its final state."""
        return self.commits[-1].run.values

    @property
    def folder(self) -> Path:
        """The folder of its log and its commits."""
        return self.run_files.folder(label_of(self.who), self.who["seed"])

    @property
    def updates(self) -> UpdateFiles:
        """The files of its updates, if it kept any."""
        return UpdateFiles(self.run_files.updates(label_of(self.who), self.who["seed"]))

    @property
    def model(self) -> Path:
        """The file of its final model."""
        return self.run_files.model(label_of(self.who), self.who["seed"])

    def until(self, round: int) -> "RecordedSeed":
        """The seed with its rows up to a round, and no other tables."""
        return self._replace(tables={"rounds": [r for r in self.rows if r["round"] <= round]})


# -------------------------------------------------------------------------- reading a recorded seed


def recorded(path: Path, record: dict[str, Any], seed: int) -> RecordedSeed:
    """Read a seed of a run of one method, as `recorded_run` does."""
    who = {"method": record["method"], "seed": seed}
    return recorded_run(run_files_of(path, record), record, who)


def recorded_run(
    run_files: RunFiles, record: dict[str, Any], who: Mapping[str, Any]
) -> RecordedSeed:
    """Read the log and the commits of a run, which have to match each other.

    Raises:
      CheckpointError: where they do not match.
    """
    folder = run_files.folder(label_of(who), who["seed"])
    paths = commit_files(folder)
    if not paths:
        raise CorruptError(f"{folder}: holds no commit")
    expected = identity(record, who["seed"])
    with files.reporting_os_errors(folder):
        commits = [_commit_of_run(file, expected) for file in paths]
        for commit in commits[:-1]:
            # A run that was made longer has dropped the rows after its former end.
            read_log(commit, commit.full if commit.status == "running" else commit.reopened)
        end = commits[-1]
        tables = read_log(end, end.full).tables
        if (folder / LOG).stat().st_size > end.full.length:
            raise CorruptError(f"{end.path}: does not match {LOG}, which is longer")
    return RecordedSeed(run_files, record, dict(who), tables, commits)


def _commit_of_run(path: Path, expected: dict[str, Any]) -> Commit:
    """Read a commit, which has to have the identity of the run."""
    commit = read_commit(path)
    lines = []
    for field, in_commit, in_record in differences(commit.identity, expected):
        lines.append(f"{path}: {field}: {in_commit}, in the record {in_record}")
    if lines:
        raise CheckpointError("\n".join(lines))
    if not isinstance(commit.run.values.get("first"), str) or commit.round < 0:
        raise CorruptError(f"{path}: is not the commit of a run")
    return commit


# --------------------------------------------------------------------------------- playing it again


def replayed(
    seed: RecordedSeed, experiment: Experiment, whole: bool
) -> Iterator[tuple[str, list[str]]]:
    """Play a seed again (inside `numerics`) -> the rounds in words, and how they differ.

    The first rounds of a fork are those of another run, so only those after a commit are played.

    Args:
      whole: play every round, instead of the first one and those after the older commit.
    """
    before = None
    last = seed.end["round"]
    first = min(last, 1)
    is_fork = "fork" in seed.record
    if len(seed.commits) > 1 and (is_fork or not whole):
        if not is_fork:
            yield "round 1", _differences(seed, experiment, until=1)
        before = seed.commits[-2]
        first = before.round + 1
    rounds = f"rounds {first} to {last}" if first < last else f"round {last}"
    yield rounds, _differences(seed, experiment, before)


def replayed_to(seed: RecordedSeed, experiment: Experiment, round: int) -> Snapshot:
    """Return the state of a seed after a round, in which it is played again (inside `numerics`).

    It begins with the newest commit at or before that round, where there is one.

    Raises:
      CheckpointError: where the recorded rows do not come out again.
    """
    earlier = [commit for commit in seed.commits if commit.round <= round]
    with _copied(seed, earlier[-1] if earlier else None) as copy:
        commits = copy.commits
        problems = []
        if round > (commits[-1].round if commits else 0):
            again = _played(seed, copy, experiment, round)
            commits = again.commits
            problems = _differing_rows(seed.until(round), again.until(round))
        if problems:
            where = f"{seed.run_files.path}: seed {seed.who['seed']}"
            raise CheckpointError("\n".join(f"{where}: {problem}" for problem in problems))
        run = experiment.run(seed.who["seed"], copy.folder)
        try:
            if commits:
                restore(run, commits[-1].run, seed.folder)
            return run.snapshot(portable=True)
        finally:
            run.release()


@contextlib.contextmanager
def _copied(seed: RecordedSeed, commit: Commit | None) -> Iterator[RecordedSeed]:
    """A seed with one commit of a recorded seed, or none, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="fedsim-") as name:
        copy = seed._replace(run_files=seed.run_files._replace(path=Path(name)), commits=[])
        files.make_folder(copy.folder)
        if commit is not None:
            with files.reporting_os_errors(seed.folder):
                # Not the names in the commit, which may be a stranger's.
                for file in (commit.path, seed.folder / LOG, *seed.folder.glob("memory-*.rows")):
                    shutil.copyfile(file, copy.folder / file.name)
            copy.commits.append(commit._replace(path=copy.folder / commit.path.name))
        yield copy


def _played(
    seed: RecordedSeed, copy: RecordedSeed, experiment: Experiment, until: int | None
) -> RecordedSeed:
    """Go on with a copy of a seed, until a round or the end, and read what it wrote.

    Every round after which the recorded seed has a commit has one again.
    """
    number = seed.who["seed"]
    stops = {commit.round for commit in seed.commits}
    if until is not None:
        stops.add(until)
    scenario = experiment.scenario
    checkpoint = scenario.spec.checkpoint.model_copy(
        update={
            "seconds": math.inf,
            "rounds": None,
            "keep": sorted(stops),
            "updates": bool(seed.updates.rounds()),
        }
    )
    spec = scenario.spec.model_copy(update={"checkpoint": checkpoint})
    planned = PlannedExperiment(
        experiment=experiment._replace(scenario=scenario._replace(spec=spec)),
        record=seed.record,
        who={name: value for name, value in seed.who.items() if name != "seed"},
        numerics=lambda: contextlib.nullcontext([]),
        seeds=[number],
    )
    started: list[JournaledRun] = []

    def listen(journaled: JournaledRun, row: Row | None) -> None:
        if row is None:
            started.append(journaled)

    def is_over() -> bool:
        return until is not None and any(run.journal.round == until for run in started)

    with contextlib.suppress(Interrupted):
        (result,) = execute([planned], copy.run_files, None, listen, is_over)
        result.write_models(copy.run_files)
    return recorded_run(copy.run_files, seed.record, seed.who)


# -------------------------------------------------------------------------------- comparing the two


def _differences(
    seed: RecordedSeed,
    experiment: Experiment,
    before: Commit | None = None,
    until: int | None = None,
) -> list[str]:
    """Play a seed again from a commit or the start, and compare -> what differs first."""
    try:
        with _copied(seed, before) as copy:
            again = _played(seed, copy, experiment, until)
            last = again.end["round"]
            problems = _differing_rows(seed.until(last), again.until(last))
            problems = problems or _differing_updates(seed, again)
            problems = problems or _differing_commits(seed, again, experiment)
            if problems:
                return problems
            if until is not None:
                same = seed.end["first"] == again.end["first"]
                return [] if same else ["the server after round 1 differs"]
            state = _differing_state(seed.commits[-1], again.commits[-1], experiment, seed)
            # A setting of a comparison that was not chosen has no model.
            models = models_differ(seed.model, again.model) if seed.model.exists() else []
            of_models = [f"{model.name}: {model.what}" for model in models]
            return [*state, *_differing_rows(seed, again), *of_models]
    except CheckpointError as error:
        return str(error).splitlines()


def _differing_rows(seed: RecordedSeed, again: RecordedSeed) -> list[str]:
    """The first row of every table that differs."""
    texts = [_tables(each) for each in (seed, again)]
    problems = []
    for name, rows in tables_differ(*texts, seeds=[seed.who["seed"]] * 2).items():
        problems += [f"{name}.csv: {problem}" for problem in _of_table(rows)]
    return problems


def _tables(seed: RecordedSeed) -> dict[str, str]:
    return {name.removesuffix(".csv"): text for name, text in csv_of(seed.record, seed.tables)}


def _of_table(rows: RowDifferences) -> list[str]:
    """The values of the first row that differs."""
    if rows.a is None or rows.b is None:
        return [f"{rows.a or 0} rows, replayed {rows.b or 0}"]
    if not rows.fields:
        return [f"{rows.first or 'the order'}: only one of the record and the replay has it"]
    return [f"{rows.first}: {field.name}: {field.a}, replayed {field.b}" for field in rows.fields]


def _differing_updates(seed: RecordedSeed, again: RecordedSeed) -> list[str]:
    """The first round whose updates, which both keep, differ."""
    for round in seed.updates.rounds():
        file = again.updates.path(round)  # a run may have begun to keep them when it resumed
        if file.exists() and files.sha256(file) != files.sha256(seed.updates.path(round)):
            return [f"round {round}: updates: have different bits"]
    return []


def _differing_commits(
    seed: RecordedSeed, again: RecordedSeed, experiment: Experiment
) -> list[str]:
    """How the states of the first commit on the way differ.

    A run that had ended and was prolonged counted its rows in another way when it ended; and one
    that was shortened to a commit has another commit of that round, its end.
    """
    on_the_way = {commit.round: commit for commit in again.commits if commit.status == "running"}
    for commit in seed.commits[:-1]:
        if commit.status == "running" and commit.round in on_the_way:
            problems = _differing_state(commit, on_the_way[commit.round], experiment, seed)
            if problems:
                where = f"the commit of round {commit.round}"
                return [f"{where}: {problem}" for problem in problems]
    return []


def _differing_state(
    commit: Commit, again: Commit, experiment: Experiment, seed: RecordedSeed
) -> list[str]:
    """How the state in a commit differs from that in a recorded one."""
    problems = differing_values(
        _without_measurements(commit.run.values), _without_measurements(again.run.values)
    )
    for name in commit.run.arrays | again.run.arrays:
        array = commit.run.arrays.get(name)
        if not name.startswith("memory.") and not _same(array, again.run.arrays.get(name)):
            problems.append(f"{name}: has different bits")
    return problems + _differing_memory(commit, again, experiment, seed)


def differing_values(values: Record, again: Record) -> list[str]:
    """The values of two records that differ as they are written: NaN equals NaN."""
    problems = []
    for name in values | again:
        text = json.dumps(values.get(name))
        text_again = json.dumps(again.get(name))
        if text != text_again:
            problems.append(f"{name}: {text}, replayed {text_again}")
    return problems


def _without_measurements(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a commit without what is measured.

    Left out are the seconds of earlier processes, and lane steps: runs that trained side by side
    share the lanes.
    """
    kept = {name: value for name, value in values.items() if name != "before"}
    for name in ("since", "open_since"):
        kept[name] = {**(values.get(name) or {}), "lane_steps": None}
    return kept


def _same(array: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether two arrays have the same bits: a NaN equals itself, and zero has a sign."""
    if array is None or other is None:
        return array is other
    if array.dtype != other.dtype or array.shape != other.shape:
        return False
    return array.tobytes() == other.tobytes()


def _differing_memory(
    commit: Commit, again: Commit, experiment: Experiment, seed: RecordedSeed
) -> list[str]:
    """Compare the clients' memory at two commits, whether it is in them or in a file."""
    ids = _ids_with_memory(commit)
    if not np.array_equal(ids, _ids_with_memory(again)):
        return ["client memory: is of different clients"]
    if not len(ids):
        return []
    run = experiment.run(seed.who["seed"])
    chunk_length = max(CHUNK_BYTES // max(run.row_bytes(), 1), 1)
    for first in range(0, len(ids), chunk_length):
        chunk = ids[first : first + chunk_length]
        differs = (_memory_rows(commit, chunk, run) != _memory_rows(again, chunk, run)).any(axis=1)
        if differs.any():
            return [f"client memory: client {chunk[differs.argmax()]} has different bits"]
    return []


def _ids_with_memory(commit: Commit) -> np.ndarray:
    """The clients that have memory, sorted."""
    return np.sort(commit.run.arrays.get("memory.ids", np.zeros(0, int)))


def _memory_rows(commit: Commit, ids: np.ndarray, run: Run) -> np.ndarray:
    """The memory of clients as bytes `[len(ids), row_bytes]`."""
    arrays = commit.run.arrays
    known = arrays["memory.ids"]
    if "memory.rows" in arrays:
        order = np.argsort(known)
        return arrays["memory.rows"][order[np.searchsorted(known, ids, sorter=order)]]
    folder = commit.path.parent
    clients = run.plan.federation.N
    file = RowFile(folder, int(arrays["memory.file"][0]), run.row_bytes(), clients)
    file.offset[known] = arrays["memory.offsets"]
    with files.reporting_os_errors(folder):
        # Not by `RowFile.open`, which would truncate the file.
        file.file = os.open(folder / file.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return file.read(ids)
        finally:
            os.close(file.file)
            file.file = None
