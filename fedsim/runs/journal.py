"""The journal of one run under one seed: a log of rows that only grows, and its two newest commits.

Commit k: append the new rows, fsync; write `state-k.ckpt` with the state of the run **and the length of the log**, fsync,
rename, fsync of the folder. The rename is the only moment at which anything becomes true, so a process may be killed
anywhere: what lies beyond the length that the newest commit names never happened.
"""

import hashlib
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, encode
from fedsim.disk.tables import Record
from fedsim.errors import CheckpointError, CorruptError
from fedsim.runs.commits import LOG, commits, name_of, number_of, read_commit, read_log

KEPT = 2  # commits
PATIENCE = 50  # a commit that took t seconds is followed by 50 t seconds without one: at most 2 % of the time
CHANGEABLE = ("rounds", "checkpoint", "compare")  # of a scenario, in a run that goes on


class Pace(NamedTuple):
    """When commits are due."""

    seconds: float = 10.0
    rounds: int | None = None


DEFAULT = Pace()


class Journal:
    """Rows by table, and the commits that make them last.

    Args:
      folder: where (None: nothing is written).
      identity: everything that determines the bits of this run; a commit of another one is refused.
      pace: when a commit is due.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], pace: Pace = DEFAULT):
        self.folder, self.identity, self.pace = folder, identity, pace
        self.records: dict[str, list[Record]] = {}
        self.length, self.open, self.number = 0, 0, 0
        self.sha, self.open_sha, self.pending = hashlib.sha256(), hashlib.sha256(), bytearray()
        self.kept: dict[str, list[str]] = {}  # commits on the disk, and the files each refers to
        self.committed, self.cost = time.monotonic(), 0.0
        self.status, self.round = "running", None  # of the last commit

    def add(self, table: str, *records: Record) -> None:
        """Rows of a table; they last from the next commit on."""
        self.records.setdefault(table, []).extend(records)
        if self.folder is not None:
            lines = b"".join(json.dumps([table, record]).encode() + b"\n" for record in records)
            self.pending += lines
            self.sha.update(lines)

    def mark(self) -> None:
        """Everything from here on would not be there, were the run to go on for more rounds."""
        self.open, self.open_sha = self.length + len(self.pending), self.sha.copy()

    def due(self, round: int) -> bool:
        """Whether it is time for a commit after this round."""
        if self.folder is None:
            return False
        if self.pace.rounds is not None and round % self.pace.rounds == 0:
            return True
        return time.monotonic() - self.committed >= max(self.pace.seconds, PATIENCE * self.cost)

    def commit(self, snapshot: Snapshot, refers: list[str]) -> None:
        """Make everything so far last.

        Args:
          snapshot: the state of the run.
          refers: files of the folder that it refers to; they are on the disk.
        """
        if self.folder is None:
            return
        begin = time.monotonic()
        length, number = self.length + len(self.pending), self.number + 1
        log = {"length": length, "sha256": self.sha.hexdigest()}
        values = {
            "identity": self.identity,
            "log": {**log, "open": self.open, "open_sha256": self.open_sha.hexdigest()},
            "files": refers,
            "run": snapshot.values,
        }
        name = name_of(number)
        files.append(self.folder / LOG, self.length, self.pending)
        files.write(self.folder / name, encode(Snapshot(values, snapshot.arrays)))
        self.length, self.number, self.pending = length, number, bytearray()
        self.status, self.round = snapshot.values["status"], snapshot.values["round"]
        self.kept[name] = refers
        self._tidy()
        self.committed = time.monotonic()
        self.cost = self.committed - begin

    def last(self, rounds: int) -> Snapshot | None:
        """The newest whole commit, with its rows read back; None when there is none.

        Args:
          rounds: of the run: where one that ended earlier is to go on, what came after the `mark` is taken back.

        Raises:
          CheckpointError: when there are commits, and none can be continued.
        """
        if self.folder is None:
            return None
        paths, problems = commits(self.folder), []
        for path in paths[::-1]:
            try:
                snapshot = self._goes_on_from(path, rounds)
                self.number = max(number_of(p.name) for p in paths)
                break
            except CorruptError as error:
                problems.append(str(error))
        else:
            if problems:
                ending = f"{self.folder}: nothing whole to go on from; --force starts anew"
                raise CheckpointError("\n".join([*problems, ending]))
            return None
        for problem in problems:
            warnings.warn(f"{problem}; going on from the commit before", stacklevel=2)
        for path in paths[: -KEPT - len(problems)]:
            files.remove(path)
        return snapshot

    def _goes_on_from(self, path: Path, rounds: int) -> Snapshot:
        """Take over the rows of a commit -> the state of the run."""
        with files.naming(path):
            commit = read_commit(path)
        demand_same(commit.identity, self.identity, str(path))
        if not 0 <= commit.round <= rounds:
            raise CorruptError(f"{path}: is of round {commit.round}, and the run has {rounds}")
        with files.naming(path.with_name(LOG)):
            text, self.records = read_log(commit, commit.extent(rounds))
        self.length, self.sha, self.pending = len(text), hashlib.sha256(text), bytearray()
        self.open, self.open_sha = commit.open.length, hashlib.sha256(text[: commit.open.length])
        self.status, self.round = commit.status, commit.round
        self.kept[path.name] = commit.refers
        return commit.run

    def _tidy(self) -> None:
        """Delete what no kept commit refers to."""
        assert self.folder is not None
        self.kept = dict(sorted(self.kept.items(), key=lambda kept: number_of(kept[0]))[-KEPT:])
        wanted = {LOG, *self.kept, *(name for refers in self.kept.values() for name in refers)}
        with files.naming(self.folder):
            others = sorted(path for path in self.folder.iterdir() if path.name not in wanted)
        for path in others:
            files.remove(path)


def demand_same(before: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """A run goes on only as what it was.

    Raises:
      CheckpointError: naming every field that differs.
    """
    lines = [f"{where}: {field}: {was}, now {is_}" for field, was, is_ in differences(before, now)]
    if lines:
        lines.append(
            f"{where}: is of another run; change it back, or start anew with --force or --out"
        )
        raise CheckpointError("\n".join(lines))


def differences(before: Any, now: Any, path: str = "") -> list[tuple[str, str, str]]:
    """Fields in which two nested values differ: (dotted path, one, the other)."""
    if isinstance(before, dict) and isinstance(now, dict):
        fields = []
        for key in [*before, *(key for key in now if key not in before)]:
            inner = f"{path}.{key}" if path else str(key)
            fields += differences(before.get(key), now.get(key), inner)
        return fields
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [
            d
            for i, (b, n) in enumerate(zip(before, now, strict=True))
            for d in differences(b, n, f"{path}[{i}]")
        ]
    return [] if before == now else [(path, _short(before), _short(now))]


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
