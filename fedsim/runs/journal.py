"""The journal of one run under one seed: a log of rows that only grows, and its two newest commits.

Commit k: append the new rows, fsync; write `state-k.ckpt` with the state of the run **and the length of the log**, fsync,
rename, fsync of the folder. The rename is the only moment at which anything becomes true, so a process may be killed
anywhere: what lies beyond the length that the newest commit names never happened.
"""

import contextlib
import hashlib
import json
import re
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, decode, encode
from fedsim.disk.tables import Record
from fedsim.engine.run import COMPLETED
from fedsim.errors import CheckpointError, CorruptError

KEPT = 2  # commits
PATIENCE = 50  # a commit that took t seconds is followed by 50 t seconds without one: at most 2 % of the time
LOG = "log.jsonl"
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
                snapshot = self._read(path, rounds)
                self.number = max(number_of(p.name) for p in paths)
                break
            except CorruptError as error:
                problems.append(f"{path}: {error}")
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

    def _read(self, path: Path, rounds: int) -> Snapshot:
        assert self.folder is not None
        with files.naming(path):
            whole = decode(path.read_bytes())
        try:
            identity, log, refers, run = (whole.values[name] for name in ("identity", "log", "files", "run"))
            demand_same(identity, self.identity, str(path))
            if not 0 <= int(run["round"]) <= rounds:
                raise CorruptError(f"is of round {int(run['round'])}, and the run has {rounds}")
            goes_on = run["status"] in COMPLETED and run["round"] < rounds  # and its end may be written over already
            length, sha = (int(log["open"]), log["open_sha256"]) if goes_on else (int(log["length"]), log["sha256"])
            text = b""
            with files.naming(self.folder / LOG), contextlib.suppress(FileNotFoundError):
                text = (self.folder / LOG).read_bytes()[:length]
            if len(text) < length or hashlib.sha256(text).hexdigest() != sha:
                raise CorruptError(f"does not fit {LOG}, which is damaged")
            self.open, self.open_sha = int(log["open"]), hashlib.sha256(text[: int(log["open"])])
            self.status, self.round = run["status"], run["round"]
            self.records = {}
            for line in text.splitlines():
                table, record = json.loads(line)
                self.records.setdefault(table, []).append(record)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CorruptError(f"is damaged: {type(error).__name__}: {error}") from None
        self.length, self.sha, self.pending = len(text), hashlib.sha256(text), bytearray()
        self.kept[path.name] = refers
        return Snapshot(run, whole.arrays)

    def _tidy(self) -> None:
        """Delete what no kept commit refers to."""
        assert self.folder is not None
        self.kept = dict(sorted(self.kept.items(), key=lambda kept: number_of(kept[0]))[-KEPT:])
        wanted = {LOG, *self.kept, *(name for refers in self.kept.values() for name in refers)}
        with files.naming(self.folder):
            others = sorted(path for path in self.folder.iterdir() if path.name not in wanted)
        for path in others:
            files.remove(path)


def name_of(number: int) -> str:
    """The file of a commit: at least six digits, so names of runs with more commits do not sort as text."""
    return f"state-{number:06}.ckpt"


def number_of(name: str) -> int:
    """The number of a commit by the name of its file; −1 where that is no name that `name_of` gives.

    >>> number_of("state-000012.ckpt"), number_of("state-1000000.ckpt"), number_of("state-12.ckpt")
    (12, 1000000, -1)
    """
    match = re.fullmatch(r"state-([0-9]{6,18})\.ckpt", name)
    return int(match[1]) if match and name_of(int(match[1])) == name else -1


def commits(folder: Path) -> list[Path]:
    """The commits in a folder, oldest first; other files that lie there are none."""
    with files.naming(folder):
        return sorted((p for p in folder.iterdir() if number_of(p.name) >= 0), key=lambda p: number_of(p.name))


class Committed(NamedTuple):
    """What a run had committed when somebody else read its journal.

    Attributes:
      tables: its rows by table.
      round: of the commit.
      status: `running`, or how the run ended.
    """

    tables: dict[str, list[Record]]
    round: int
    status: str


def committed(folder: Path, rounds: int) -> Committed | None:
    """What a journal holds up to its newest whole commit; None before the first one. Nothing is written or locked.

    Another process may be writing there: it appends rows before the commit that names them, and deletes commits only
    after newer ones. So whatever a commit names is there once the commit is, and where one is gone there is a newer one.

    Args:
      folder: of the journal.
      rounds: of the run: where it ended earlier and is to go on, what a longer run has not is left out.

    Raises:
      CheckpointError: when there are commits, and none can be read.
    """
    while folder.is_dir() and (paths := commits(folder)):
        problems = []
        for path in paths[::-1]:
            try:
                return _committed(path, rounds)
            except FileNotFoundError:
                continue
            except (CheckpointError, LookupError, TypeError, ValueError, RecursionError) as error:
                problems.append(f"{path}: {error}")
        if paths == commits(folder):
            raise CheckpointError("\n".join(problems))
    return None


def _committed(path: Path, rounds: int) -> Committed:
    """What one commit names, and its rows."""
    values = decode(path.read_bytes()).values
    log, run, text = values["log"], values["run"], (path.parent / LOG).read_bytes()
    goes_on = run["status"] in COMPLETED and run["round"] < rounds
    length, sha = (int(log["open"]), log["open_sha256"]) if goes_on else (int(log["length"]), log["sha256"])
    if len(text) < length or hashlib.sha256(text[:length]).hexdigest() != sha:
        raise CorruptError(f"does not fit {LOG}, which is damaged")
    tables: dict[str, list[Record]] = {}
    for line in text[:length].splitlines():
        table, row = json.loads(line)
        tables.setdefault(table, []).append(dict(row))
    return Committed(tables, int(run["round"]), "running" if goes_on else str(run["status"]))


def demand_same(before: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """A run goes on only as what it was.

    Raises:
      CheckpointError: naming every field that differs.
    """
    lines = [f"{where}: {field}: {was}, now {is_}" for field, was, is_ in differences(before, now)]
    if lines:
        lines.append(f"{where}: is of another run; change it back, or start anew with --force or --out")
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
        return [d for i, (b, n) in enumerate(zip(before, now, strict=True)) for d in differences(b, n, f"{path}[{i}]")]
    return [] if before == now else [(path, _short(before), _short(now))]


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
