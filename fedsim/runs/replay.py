"""A seed as a run directory has it, and the same seed once more: replayed and compared bit by bit.

Nothing is written into that directory: what a replay needs of it is copied to a temporary folder.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, named
from fedsim.disk.rowfile import RowFile
from fedsim.disk.tables import Record, unstacked
from fedsim.engine.loop import events
from fedsim.engine.run import CommitPoint, Run
from fedsim.engine.store import OnDisk
from fedsim.errors import CheckpointError, CorruptError, DirectoryError
from fedsim.runs import directory
from fedsim.runs.commits import LOG, Commit, commits, read_commit, read_log
from fedsim.runs.filenames import Layout, layout_of
from fedsim.runs.final_tables import add_final_tables
from fedsim.runs.journal import Journal, differences
from fedsim.runs.record import identity
from fedsim.runs.result import OPTIONAL

CHUNK = 1 << 26  # bytes of client memory that are compared at a time


class Recorded(NamedTuple):
    """One seed as a run directory has it."""

    layout: Layout  # of the run directory
    who: Record  # method and seed
    tables: dict[str, list[Record]]
    commits: list[Snapshot]  # oldest first; the last one is the end

    @property
    def rows(self) -> list[Record]:
        """Its lines of `rounds.csv`."""
        return self.tables.get("rounds", [])

    @property
    def end(self) -> dict[str, Any]:
        """Plain values of its state at the end."""
        return self.commits[-1].values

    @property
    def folder(self) -> Path:
        """Where its log and its commits lie."""
        return self.layout.folder(self.who["method"], self.who["seed"])

    @property
    def model(self) -> Path:
        """The file of its final model."""
        return self.layout.model(self.who["method"], self.who["seed"])


def recorded(path: Path, record: dict[str, Any], seed: int) -> Recorded:
    """Read a seed's log and commits, which have to fit each other and the record.

    Raises:
      CheckpointError: where they do not.
    """
    layout = layout_of(path, record)
    folder = layout.folder(record["method"], seed)
    paths = commits(folder)
    if not paths:
        raise CorruptError(f"{folder}: holds no commit")
    with files.naming(folder):
        *before, end = [_of_this_run(name, identity(record, seed)) for name in paths]
        for commit in before:
            # a run that was made longer took back the lines after its former end
            read_log(commit, commit.whole if commit.status == "running" else commit.open)
        tables = read_log(end, end.whole).tables
        if (folder / LOG).stat().st_size > end.whole.length:
            raise CorruptError(f"{end.path}: does not fit {LOG}, which goes on behind it")
    who = {"method": record["method"], "seed": seed}
    states = [commit.run for commit in (*before, end)]
    return Recorded(layout=layout, who=who, tables=tables, commits=states)


def _of_this_run(path: Path, expected: dict[str, Any]) -> Commit:
    """A commit that is one of this run."""
    commit = read_commit(path)
    others = [
        f"{path}: {field}: {one}, in the record {two}"
        for field, one, two in differences(commit.identity, expected)
    ]
    if others:
        raise CheckpointError("\n".join(others))
    if not isinstance(commit.run.values.get("first"), str) or commit.round < 0:
        raise CorruptError(f"{path}: is of no run")
    return commit


def replayed(was: Recorded, experiment: Experiment, whole: bool) -> Iterator[tuple[str, list[str]]]:
    """Replay a seed (inside `numerics`) -> which rounds, and how they differ from the recorded ones.

    Args:
      was: the seed as recorded.
      experiment: the run, built anew.
      whole: every round, instead of the first one and those after the older of the two kept commits.
    """
    before = was.commits[-2] if len(was.commits) > 1 and not whole else None
    last = was.end["round"]
    if before is not None:
        yield "round 1", _first_round(was, experiment)
    first = before.values["round"] + 1 if before else min(last, 1)
    yield (
        f"rounds {first} to {last}" if first < last else f"round {last}",
        _last_rounds(was, experiment, before),
    )


def _first_round(was: Recorded, experiment: Experiment) -> list[str]:
    with _run(was, experiment) as (run, _):
        problems = _other_rows(run, was, experiment, until=1)
    if not problems and run.first != was.end["first"]:
        problems = ["the server after round 1 is another one"]
    return problems


def _last_rounds(was: Recorded, experiment: Experiment, before: Snapshot | None) -> list[str]:
    with _run(was, experiment) as (run, folder):
        try:
            if before is not None:
                with files.naming(folder):
                    for rows in was.folder.glob("memory-*.rows"):
                        shutil.copyfile(rows, folder / rows.name)
                _restore(run, before)
            return _other_rows(run, was, experiment) or _other_end(run, was, experiment, folder)
        except CheckpointError as error:
            return str(error).splitlines()


@contextlib.contextmanager
def _run(was: Recorded, experiment: Experiment) -> Iterator[tuple[Run, Path]]:
    """A run of the seed from its start, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="fedsim-") as name:
        run = experiment.run(was.who["seed"], folder=Path(name))
        try:
            yield run, Path(name)
        finally:
            if isinstance(run.store, OnDisk):
                run.store.file.close()


def _restore(run: Run, snapshot: Snapshot) -> None:
    try:
        run.restore(snapshot)
    except (
        KeyError,
        IndexError,
        TypeError,
    ) as error:  # a commit that is whole, and was not written by a run
        raise CorruptError(
            f"the commit of round {snapshot.values['round']} is damaged: {error!r}"
        ) from None


def _other_rows(
    run: Run, was: Recorded, experiment: Experiment, until: int | None = None
) -> list[str]:
    """Go on to a round (None: the end), or to the first row that is not the recorded one."""
    run.close()
    unseen = (
        run.status == "running" and run.round == run.rounds
    )  # its last round was not to be, and is evaluated now
    expected = {row["round"]: row for row in was.rows if row["round"] > run.round - unseen}
    resident = (
        experiment.scenario.spec.data.resident_mb * 1e6
    )  # bytes of samples that the device may hold
    for event in events([run], run.program, lambda r: r == until, samples=resident):
        if not isinstance(event, CommitPoint):
            values = event[1].values
            r = values["round"]
            if r not in expected:
                return [f"round {r}: the replay has a row, which the record has not"]
            problems = _other(expected.pop(r), {**was.who, **values})
            if problems:
                return [f"round {r}: {problem}" for problem in problems]
        if run.round == until:
            break
    missing = [r for r in expected if until is None or r <= until]
    return [f"round {missing[0]}: is recorded, and the replay has no such row"] if missing else []


def _other_end(run: Run, was: Recorded, experiment: Experiment, folder: Path) -> list[str]:
    """Differences of the state, the tables and the model at the end."""
    now, spec = run.snapshot(), experiment.scenario.spec
    problems = _other({**was.end, "before": None}, {**now.values, "before": None})
    for name, one, two in _pairs(was.commits[-1].arrays, now.arrays):
        if not name.startswith("memory.") and not _same(one, two):
            problems.append(f"{name}: the last commit has other bits")
    problems += _other_memory(run, was, now, folder)
    journal = Journal(None, {})
    journal.add("rounds", *was.rows)
    add_final_tables(journal, run, was.who, spec.evaluate, several=len(spec.seeds) > 1)
    for table in ("summary", "clients", "partition", *OPTIONAL):
        problems += _other_table(table, was.tables.get(table, []), journal.records.get(table, []))
    return problems + _other_model(run, was, folder)


def _other_memory(run: Run, was: Recorded, now: Snapshot, folder: Path) -> list[str]:
    """Clients whose memory differs, wherever it is kept."""
    recorded = was.commits[-1].arrays
    ids = np.sort(now.arrays.get("memory.ids", np.zeros(0, int)))
    if not np.array_equal(ids, np.sort(recorded.get("memory.ids", np.zeros(0, int)))):
        return ["client memory: of other clients"]
    size, N = run.row_bytes(), len(run.joined)
    count = max(CHUNK // max(size, 1), 1)
    for part in (ids[first : first + count] for first in range(0, len(ids), count)):
        one, two = (
            _rows(*place, part, size, N) for place in ((recorded, was.folder), (now.arrays, folder))
        )
        if not np.array_equal(one, two):
            return [
                f"client memory: client {part[(one != two).any(1).argmax()]} remembers other bits"
            ]
    return []


def _rows(
    arrays: dict[str, np.ndarray], folder: Path, ids: np.ndarray, size: int, N: int
) -> np.ndarray:
    """The memory of clients at a commit, as bytes `[len(ids), size]`; its file is only read."""
    known = arrays["memory.ids"]
    if "memory.rows" in arrays:
        order = np.argsort(known)
        return arrays["memory.rows"][order[np.searchsorted(known, ids, sorter=order)]]
    file = RowFile(folder, int(arrays["memory.file"][0]), size, N)
    file.offset[known] = arrays["memory.offsets"]
    with files.naming(folder):
        # `RowFile.open` would cut the file
        file.file = reading = os.open(folder / file.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return file.read(ids)
        finally:
            os.close(reading)
            file.file = -1


def _other_table(table: str, was: list[Record], now: list[Record]) -> list[str]:
    was, now = list(unstacked(was)), list(unstacked(now))
    if len(was) != len(now):
        return [f"{table}: {len(was)} rows, replayed {len(now)}"]
    for number, (one, two) in enumerate(zip(was, now, strict=True), 1):
        problems = _other(one, two)
        if problems:
            return [f"{table}: row {number}: {problem}" for problem in problems]
    return []


def _other_model(run: Run, was: Recorded, folder: Path) -> list[str]:
    """Tensors of the model file that are not the server's."""
    name = was.model.name
    directory.write_model(folder / name, jax.tree.map(np.asarray, run.server.shared))
    try:
        one, two = (named("", directory.load_model(file)) for file in (was.model, folder / name))
    except DirectoryError as error:
        return [f"{name}: {error}"]
    return [f"{name}: {leaf}: has other bits" for leaf, a, b in _pairs(one, two) if not _same(a, b)]


def _pairs(one: dict[str, Any], two: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in [*one, *(name for name in two if name not in one)]:
        yield name, one.get(name), two.get(name)


def _same(one: np.ndarray | None, two: np.ndarray | None) -> bool:
    """Equal to the bit: a NaN is itself, and zero has a sign."""
    if one is None or two is None:
        return one is two
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


def _other(was: Record, now: Record) -> list[str]:
    """Values that differ, compared as they are written down: NaN equals NaN."""
    pairs = ((name, json.dumps(one), json.dumps(two)) for name, one, two in _pairs(was, now))
    return [f"{name}: {one}, replayed {two}" for name, one, two in pairs if one != two]
