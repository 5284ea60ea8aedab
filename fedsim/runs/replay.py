"""A seed as a run directory records it, and its replay, which is compared bit by bit.

Nothing is written into that directory: what a replay needs of it is copied to a temporary folder.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, leaves_by_name
from fedsim.disk.rowfile import RowFile
from fedsim.disk.tables import Record, unstacked
from fedsim.engine.final import final_variables
from fedsim.engine.loop import events
from fedsim.engine.recording import RoundUpdates
from fedsim.engine.run import CommitPoint, Row, Run
from fedsim.engine.store import OnDisk
from fedsim.errors import CheckpointError, CorruptError, DirectoryError
from fedsim.runs import directory
from fedsim.runs.commits import LOG, Commit, commit_files, read_commit, read_log
from fedsim.runs.differences import differences
from fedsim.runs.filenames import RunFiles, label_of, run_files_of
from fedsim.runs.final_tables import add_final_tables
from fedsim.runs.journal import Journal
from fedsim.runs.record import identity
from fedsim.runs.result import OPTIONAL_TABLES
from fedsim.runs.update_files import UpdateFiles

CHUNK_BYTES = 1 << 26  # of client memory that are compared at a time
FINAL_TABLES = ("summary", "clients", "partition", *OPTIONAL_TABLES)


class RecordedSeed(NamedTuple):
    """One seed as a run directory records it.

    Attributes:
      run_files: the files of the run directory.
      who: the first columns of its rows: method and seed, in a comparison also what varies.
      tables: its rows by table.
      commits: the states that it committed, oldest first; the last one is the end.
    """

    run_files: RunFiles
    who: Record
    tables: dict[str, list[Record]]
    commits: list[Snapshot]

    @property
    def rows(self) -> list[Record]:
        """Its rows of `rounds.csv`."""
        return self.tables.get("rounds", [])

    @property
    def end(self) -> dict[str, Any]:
        """Plain values of its final state."""
        return self.commits[-1].values

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


# -------------------------------------------------------------------------- reading a recorded seed


def recorded(path: Path, record: dict[str, Any], seed: int) -> RecordedSeed:
    """Read the log and the commits of a seed, which have to match each other and the record.

    Args:
      path: the run directory.
      record: its record.
      seed: the seed.

    Raises:
      CheckpointError: where they do not match.
    """
    who = {"method": record["method"], "seed": seed}
    return recorded_run(run_files_of(path, record), who, identity(record, seed))


def recorded_run(
    run_files: RunFiles, who: Mapping[str, Any], expected: dict[str, Any]
) -> RecordedSeed:
    """Read the log and the commits of a run, which have to match each other.

    Args:
      run_files: the files of its run directory.
      who: the first columns of its rows.
      expected: the identity that its commits have to have.

    Raises:
      CheckpointError: where they do not match.
    """
    folder = run_files.folder(label_of(who), who["seed"])
    paths = commit_files(folder)
    if not paths:
        raise CorruptError(f"{folder}: holds no commit")
    with files.reporting_os_errors(folder):
        commits = [_commit_of_run(file, expected) for file in paths]
        for commit in commits[:-1]:
            # A run that was made longer has dropped the rows after its former end.
            read_log(commit, commit.full if commit.status == "running" else commit.reopened)
        end = commits[-1]
        tables = read_log(end, end.full).tables
        if (folder / LOG).stat().st_size > end.full.length:
            raise CorruptError(f"{end.path}: does not match {LOG}, which is longer")
    return RecordedSeed(
        run_files=run_files,
        who=dict(who),
        tables=tables,
        commits=[commit.run for commit in commits],
    )


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


# --------------------------------------------------------------------------------- replaying it


def replayed(
    seed: RecordedSeed, experiment: Experiment, whole: bool, forked: bool
) -> Iterator[tuple[str, list[str]]]:
    """Replay a seed (inside `numerics`) -> the rounds in words, and how they differ.

    Args:
      seed: the seed as recorded.
      experiment: the experiment, built again.
      whole: replay every round, instead of the first one and those after the older commit.
      forked: whether its first rounds are those of another run, so that only the others can be
        replayed; there is a commit between them.
    """
    before = None
    first = min(seed.end["round"], 1)
    if len(seed.commits) > 1 and (forked or not whole):
        if not forked:
            yield "round 1", _replay_first_round(seed, experiment)
        before = seed.commits[-2]
        first = before.values["round"] + 1
    last = seed.end["round"]
    rounds = f"rounds {first} to {last}" if first < last else f"round {last}"
    yield rounds, _replay_last_rounds(seed, experiment, before)


def replayed_to(
    seed: RecordedSeed, experiment: Experiment, round: int
) -> tuple[Snapshot, list[str]]:
    """Replay a seed up to a round (inside `numerics`) -> its state then, and how rows differ.

    It begins with the newest commit at or before that round, where there is one.

    Args:
      seed: the seed as recorded.
      experiment: the experiment, built again.
      round: the last round that is replayed.
    """
    earlier = [commit for commit in seed.commits if commit.values["round"] <= round]
    with temporary_run(seed, experiment) as (run, folder):
        if earlier:
            _restore_from(seed, run, folder, earlier[-1])
        problems = []
        if run.round < round:
            problems = _differing_rows(run, seed, experiment, until=round)
        return run.snapshot(portable=True), problems


def _replay_first_round(seed: RecordedSeed, experiment: Experiment) -> list[str]:
    """Replay round 1 from the start model -> differences."""
    with temporary_run(seed, experiment) as (run, _):
        problems = _differing_rows(run, seed, experiment, until=1)
    if not problems and run.first != seed.end["first"]:
        problems = ["the server after round 1 differs"]
    return problems


def _replay_last_rounds(
    seed: RecordedSeed, experiment: Experiment, before: Snapshot | None
) -> list[str]:
    """Replay the rounds after a commit (None: all rounds), and compare the end -> differences.

    Without one, the states of all other commits are compared on the way.
    """
    with temporary_run(seed, experiment) as (run, folder):
        try:
            if before is not None:
                _restore_from(seed, run, folder, before)
                passed = {}
            else:
                passed = _commits_on_the_way(seed)

            def differing_state(round: int) -> list[str]:
                problems = _differing_state(run, seed, passed[round], folder)
                return [f"the commit of round {round}: {problem}" for problem in problems]

            problems = _differing_rows(
                run, seed, experiment, stops=tuple(passed), at_stop=differing_state
            )
            return problems or _differing_end(run, seed, experiment, folder)
        except CheckpointError as error:
            return str(error).splitlines()


def _commits_on_the_way(seed: RecordedSeed) -> dict[int, Snapshot]:
    """The states of a seed's commits before the last one, by round.

    A run that had ended and was prolonged counted its rows in another way when it ended.
    """
    states = {}
    for commit in seed.commits[:-1]:
        if commit.values["status"] == "running":
            states[commit.values["round"]] = commit
    return states


@contextlib.contextmanager
def temporary_run(seed: RecordedSeed, experiment: Experiment) -> Iterator[tuple[Run, Path]]:
    """A run of the seed from its start, and the temporary folder that it uses."""
    with tempfile.TemporaryDirectory(prefix="fedsim-") as name:
        run = experiment.run(seed.who["seed"], folder=Path(name))
        try:
            yield run, Path(name)
        finally:
            if isinstance(run.store, OnDisk):
                run.store.file.close()


def _restore_from(seed: RecordedSeed, run: Run, folder: Path, snapshot: Snapshot) -> None:
    """Restore a run from a commit of a recorded seed.

    Args:
      seed: the seed as recorded.
      run: the run.
      folder: its temporary folder, which gets a copy of the clients' memory.
      snapshot: the state in the commit.

    Raises:
      CorruptError: for a commit that is intact, and that no run has written.
    """
    with files.reporting_os_errors(folder):
        for rows in seed.folder.glob("memory-*.rows"):
            shutil.copyfile(rows, folder / rows.name)
    try:
        run.restore(snapshot)
    except (KeyError, IndexError, TypeError) as error:
        # The commit is intact, but no run has written it.
        reason = f"the commit of round {snapshot.values['round']} is damaged: {error!r}"
        raise CorruptError(reason) from None


# ------------------------------------------------------------------------------- comparing rows


def _differing_rows(
    run: Run,
    seed: RecordedSeed,
    experiment: Experiment,
    until: int | None = None,
    stops: Collection[int] = (),
    at_stop: Callable[[int], list[str]] = lambda round: [],
) -> list[str]:
    """Continue a run, and compare its rows with the recorded ones, until the first that differs.

    Args:
      run: the run.
      seed: the seed as recorded.
      experiment: the experiment, built again.
      until: the round after which to stop; None: the end.
      stops: rounds after which `at_stop` is called.
      at_stop: round -> what differs.
    """
    run.end_if_complete()
    next_row = run.round + 1
    if run.status == "running" and run.round == run.rounds:
        # A longer run would not have evaluated this last round; it is evaluated now.
        next_row = run.round
    expected = {row["round"]: row for row in seed.rows if row["round"] >= next_row}

    differing_updates = _comparing_updates(run, seed.updates)
    sample_bytes = experiment.scenario.spec.data.resident_mb * 1e6
    rests = {until, *stops}
    for event in events([run], run.program, lambda r: r in rests, samples=sample_bytes):
        if isinstance(event, CommitPoint):
            problems = at_stop(event.round) if event.round in stops else []
            if problems:
                return problems
        else:
            _, row = event
            round = row.values["round"]
            problems = differences_of_row(expected.pop(round, None), row, seed)
            if problems:
                return [f"round {round}: {problem}" for problem in problems]
        if differing_updates:
            return differing_updates[:1]
        if run.round == until:
            break
    for round in expected:
        if until is None or round <= until:
            return [f"round {round}: is recorded, but the replay has no such row"]
    return []


def _comparing_updates(run: Run, kept: UpdateFiles) -> list[str]:
    """Compare the updates of a run's next rounds with those that the seed kept, if it kept any.

    Returns:
      What differs: a list that fills while the run goes on.
    """
    problems: list[str] = []
    rounds = set(kept.rounds())

    def compare(updates: RoundUpdates) -> None:
        if updates.round not in rounds:  # the run began to keep them when it resumed
            return
        try:
            before = kept.read(updates.round, run)
        except CorruptError as error:
            problems.append(str(error))
            return
        arrays = leaves_by_name("", updates._asdict())
        for name, array in leaves_by_name("", before._asdict()).items():
            if not _same(array, arrays.get(name)):
                problems.append(f"round {updates.round}: updates: {name}: has different bits")

    if rounds:
        run.keep_updates = compare
    return problems


def differences_of_row(recorded_row: Record | None, row: Row, seed: RecordedSeed) -> list[str]:
    """How a row differs from the recorded one, if there is one."""
    if recorded_row is None:
        return ["the replay has a row that the record does not have"]
    return _differing_values(recorded_row, {**seed.who, **row.values})


# ---------------------------------------------------------------------------- comparing the end


def _differing_end(run: Run, seed: RecordedSeed, experiment: Experiment, folder: Path) -> list[str]:
    """Compare state, tables and model at the end.

    Args:
      run: the replayed run.
      seed: the seed as recorded.
      experiment: the experiment, built again.
      folder: the temporary folder of the run.
    """
    problems = _differing_state(run, seed, seed.commits[-1], folder)
    journal = Journal(None, {})
    journal.add("rounds", *seed.rows)
    add_final_tables(journal, run, seed.who, experiment.scenario.spec)
    for table in FINAL_TABLES:
        recorded_rows = seed.tables.get(table, [])
        problems += _differing_table(table, recorded_rows, journal.records.get(table, []))
    if not seed.model.exists():  # of a setting that was not chosen; other files were counted before
        return problems
    return problems + _differing_model(run, seed, folder)


def _differing_state(run: Run, seed: RecordedSeed, recorded: Snapshot, folder: Path) -> list[str]:
    """Compare the state of a replayed run with that in a commit.

    Args:
      run: the replayed run.
      seed: the seed as recorded.
      recorded: the state in the commit.
      folder: the temporary folder of the run.
    """
    state = run.snapshot()
    problems = _differing_values(
        _without_measurements(recorded.values), _without_measurements(state.values)
    )
    for name in recorded.arrays | state.arrays:
        is_same = _same(recorded.arrays.get(name), state.arrays.get(name))
        if not name.startswith("memory.") and not is_same:
            problems.append(f"{name}: has different bits")
    return problems + _differing_memory(run, seed, (recorded, state), folder)


def _without_measurements(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a commit without what is measured.

    Left out are the seconds of earlier processes, and lane steps: runs that trained side by side
    share the lanes.
    """
    kept = {name: value for name, value in values.items() if name != "before"}
    for name in ("since", "open_since"):
        kept[name] = {**(values.get(name) or {}), "lane_steps": None}
    return kept


def _differing_memory(
    run: Run, seed: RecordedSeed, states: tuple[Snapshot, Snapshot], folder: Path
) -> list[str]:
    """Compare the clients' memory, whether it is in the commit or in a file.

    Args:
      run: the replayed run.
      seed: the seed as recorded.
      states: the state in the commit, and the replayed one.
      folder: the temporary folder of the run.
    """
    recorded, state = states
    recorded_arrays = recorded.arrays
    ids = _ids_with_memory(state.arrays)
    if not np.array_equal(ids, _ids_with_memory(recorded_arrays)):
        return ["client memory: is of different clients"]

    size = run.row_bytes()
    clients = run.plan.federation.N
    chunk_length = max(CHUNK_BYTES // max(size, 1), 1)
    for first in range(0, len(ids), chunk_length):
        chunk = ids[first : first + chunk_length]
        recorded_rows = _memory_rows(recorded_arrays, seed.folder, chunk, size, clients)
        rows = _memory_rows(state.arrays, folder, chunk, size, clients)
        differs = (recorded_rows != rows).any(axis=1)  # [len(chunk), size] -> [len(chunk)]
        if differs.any():
            return [f"client memory: client {chunk[differs.argmax()]} has different bits"]
    return []


def _ids_with_memory(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The clients that have memory in a commit, sorted."""
    return np.sort(arrays.get("memory.ids", np.zeros(0, int)))


def _memory_rows(
    arrays: dict[str, np.ndarray], folder: Path, ids: np.ndarray, size: int, clients: int
) -> np.ndarray:
    """The memory of clients at a commit, as bytes `[len(ids), size]`.

    Args:
      arrays: the arrays of the commit.
      folder: where its file is, which is only read.
      ids: the clients.
      size: the bytes of a client's memory.
      clients: how many clients there are in all.
    """
    known = arrays["memory.ids"]
    if "memory.rows" in arrays:
        order = np.argsort(known)
        return arrays["memory.rows"][order[np.searchsorted(known, ids, sorter=order)]]
    file = RowFile(folder, int(arrays["memory.file"][0]), size, clients)
    file.offset[known] = arrays["memory.offsets"]
    with files.reporting_os_errors(folder):
        # Not by `RowFile.open`, which would truncate the file.
        descriptor = os.open(folder / file.name, os.O_RDONLY | os.O_CLOEXEC)
        file.file = descriptor
        try:
            return file.read(ids)
        finally:
            os.close(descriptor)
            file.file = -1


def _differing_table(name: str, recorded_records: list[Record], records: list[Record]) -> list[str]:
    """The first row of a table that differs."""
    recorded_rows = list(unstacked(recorded_records))
    rows = list(unstacked(records))
    if len(recorded_rows) != len(rows):
        return [f"{name}: {len(recorded_rows)} rows, replayed {len(rows)}"]
    for number, (recorded_row, row) in enumerate(zip(recorded_rows, rows, strict=True), 1):
        problems = _differing_values(recorded_row, row)
        if problems:
            return [f"{name}: row {number}: {problem}" for problem in problems]
    return []


def _differing_model(run: Run, seed: RecordedSeed, folder: Path) -> list[str]:
    """The tensors of the model file that are not the server's."""
    file = seed.model
    replayed_file = folder / file.name
    directory.write_model(replayed_file, final_variables(run))
    try:
        recorded_tensors = leaves_by_name("", directory.load_model(file))
        tensors = leaves_by_name("", directory.load_model(replayed_file))
    except DirectoryError as error:
        return [f"{file.name}: {error}"]
    problems = []
    for name in recorded_tensors | tensors:
        if not _same(recorded_tensors.get(name), tensors.get(name)):
            problems.append(f"{file.name}: {name}: has different bits")
    return problems


def _same(array: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether two arrays have the same bits: a NaN equals itself, and zero has a sign."""
    if array is None or other is None:
        return array is other
    if array.dtype != other.dtype or array.shape != other.shape:
        return False
    return array.tobytes() == other.tobytes()


def _differing_values(recorded_values: Record, values: Record) -> list[str]:
    """Values that differ as they are written: NaN equals NaN."""
    problems = []
    for name in recorded_values | values:
        text = json.dumps(recorded_values.get(name))
        replayed_text = json.dumps(values.get(name))
        if text != replayed_text:
            problems.append(f"{name}: {text}, replayed {replayed_text}")
    return problems
