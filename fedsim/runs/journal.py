"""The journal of a run: a log of rows that only grows, its two newest commits, and those it keeps.

Commit k: append the new rows, fsync; write `state-k.ckpt` with the state of the run **and the
length of the log**, fsync, rename, fsync the folder. The rename is the only moment at which
anything becomes true, so a process may be killed at any point: what lies beyond the length that
the newest commit names never happened.
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
from fedsim.runs.commits import LOG, commit_files, name_of, number_of, read_commit, read_log
from fedsim.runs.differences import demand_same

RETAINED = 2  # commits that stay on the disk

# A commit that took t seconds is followed by 50 t seconds without one: at most 2 % of the time.
PAUSE = 50


class Pace(NamedTuple):
    """When commits are due: after so many seconds, after every so many rounds, and when they stay.

    Attributes:
      rounds: a commit is due whenever so many rounds are done; None: only by time.
    """

    seconds: float = 10.0
    rounds: int | None = None
    keep: frozenset[int] = frozenset()


DEFAULT = Pace()


class Journal:
    """The rows of a run by table, and the commits that make them durable.

    Args:
      folder: where log and commits are written; None: nowhere.
      identity: everything that determines the bits of this run; commits of other runs are refused.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], pace: Pace = DEFAULT):
        self.folder = folder
        self.identity = identity
        self.pace = pace
        self.records: dict[str, list[Record]] = {}

        # The log on the disk, and the lines that the next commit appends to it.
        self.length = 0
        self.pending = bytearray()
        self.sha = hashlib.sha256()  # of both

        # The log up to the last `mark`.
        self.marked_length = 0
        self.marked_sha = hashlib.sha256()

        # The last commit, and all that are on the disk: name -> files that it refers to.
        self.number = 0
        self.status = "running"
        self.round: int | None = None
        self.retained: dict[str, list[str]] = {}

        # Commits that stay, by round: name and files that it refers to.
        self.kept: dict[int, tuple[str, list[str]]] = {}

        # When the last commit ended, and how many seconds it took.
        self.committed = time.monotonic()
        self.cost = 0.0

    def add(self, table: str, *records: Record) -> None:
        """Add rows to a table; they are durable from the next commit on."""
        self.records.setdefault(table, []).extend(records)
        if self.folder is not None:
            lines = b"".join(json.dumps([table, record]).encode() + b"\n" for record in records)
            self.pending += lines
            self.sha.update(lines)

    def mark(self) -> None:
        """Mark the rows so far as those that a run with more rounds would have, too."""
        self.marked_length = self.length + len(self.pending)
        self.marked_sha = self.sha.copy()

    def due(self, round: int) -> bool:
        """Whether it is time for a commit after this round."""
        if self.folder is None:
            return False
        if self.pace.rounds is not None and round % self.pace.rounds == 0:
            return True
        if round in self.pace.keep:
            return True
        return time.monotonic() - self.committed >= max(self.pace.seconds, PAUSE * self.cost)

    def commit(self, snapshot: Snapshot, refers: list[str]) -> None:
        """Make all rows so far durable, together with the state of the run.

        Args:
          refers: names of the files in the folder that it refers to; they are already on the disk.
        """
        if self.folder is None:
            return
        begin = time.monotonic()
        number = self.number + 1
        name = name_of(number)
        length = self.length + len(self.pending)
        values = {
            "identity": self.identity,
            "log": {
                "length": length,
                "sha256": self.sha.hexdigest(),
                "open": self.marked_length,
                "open_sha256": self.marked_sha.hexdigest(),
            },
            "files": refers,
            "run": snapshot.values,
        }

        # In this order: a commit must never be on the disk without its rows.
        files.append(self.folder / LOG, self.length, self.pending)
        files.write(self.folder / name, encode(Snapshot(values, snapshot.arrays)))

        self.number = number
        self.length = length
        self.pending = bytearray()
        self.status = snapshot.values["status"]
        self.round = snapshot.values["round"]
        self.retained[name] = refers
        if self.round in self.pace.keep:
            self.kept[self.round] = (name, refers)
        self._tidy()
        self.committed = time.monotonic()
        self.cost = self.committed - begin

    def resume(self, rounds: int) -> Snapshot | None:
        """Read the newest intact commit and its rows back; None where there is none.

        Args:
          rounds: the run's rounds; of a run that ended earlier and is to resume, the rows after the
            `mark` are dropped.

        Raises:
          CheckpointError: when there are commits, and none can be resumed from.
        """
        if self.folder is None:
            return None
        paths = commit_files(self.folder)
        snapshot, problems = self._newest_intact(paths, rounds)
        if snapshot is None:
            if not problems:
                return None
            last = f"{self.folder}: no intact commit to resume from; --force starts over"
            raise CheckpointError("\n".join([*problems, last]))

        # Damaged commits count, too: their numbers are not used again.
        self.number = number_of(paths[-1].name)
        for problem in problems:
            warnings.warn(f"{problem}; resuming from the commit before", stacklevel=2)
        self._find_kept(paths)
        names = {name for name, _ in self.kept.values()}
        for path in paths[: -RETAINED - len(problems)]:
            if path.name not in names:
                files.remove(path)
        return snapshot

    def _find_kept(self, paths: list[Path]) -> None:
        """Find the commits that stay among those on the disk; a damaged one is of no use."""
        if not self.pace.keep:
            return
        for path in paths:
            try:
                with files.reporting_os_errors(path):
                    commit = read_commit(path)
            except CorruptError as error:
                warnings.warn(f"{error}; it is not kept", stacklevel=3)
                continue
            if commit.round in self.pace.keep and commit.identity == self.identity:
                self.kept[commit.round] = (path.name, commit.files)

    def _newest_intact(self, paths: list[Path], rounds: int) -> tuple[Snapshot | None, list[str]]:
        """Resume from the newest intact commit -> the state, and problems of newer commits."""
        problems = []
        for path in reversed(paths):
            try:
                return self._resume_from(path, rounds), problems
            except CorruptError as error:
                problems.append(str(error))
        return None, problems

    def _resume_from(self, path: Path, rounds: int) -> Snapshot:
        """Take over the rows of a commit -> the state of the run."""
        with files.reporting_os_errors(path):
            commit = read_commit(path)
        demand_same(commit.identity, self.identity, str(path))
        if not 0 <= commit.round <= rounds:
            raise CorruptError(f"{path}: is of round {commit.round}, but the run has {rounds}")
        with files.reporting_os_errors(path.with_name(LOG)):
            text, self.records = read_log(commit, commit.extent(rounds))

        self.length = len(text)
        self.pending = bytearray()
        self.sha = hashlib.sha256(text)
        self.marked_length = commit.reopened.length
        self.marked_sha = hashlib.sha256(text[: commit.reopened.length])
        self.status = commit.status
        self.round = commit.round
        self.retained[path.name] = commit.files
        return commit.run

    def _tidy(self) -> None:
        """Delete everything in the folder that neither a newest nor a kept commit refers to."""
        assert self.folder is not None
        newest = sorted(self.retained, key=number_of)[-RETAINED:]
        self.retained = {name: self.retained[name] for name in newest}

        wanted = {LOG}
        for name, names in (*self.retained.items(), *self.kept.values()):
            wanted.update((name, *names))
        with files.reporting_os_errors(self.folder):
            unwanted = sorted(path for path in self.folder.iterdir() if path.name not in wanted)
        for path in unwanted:
            files.remove(path)
