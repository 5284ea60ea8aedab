"""The log of a run and its commits, as they are on the disk.

Everything that reads them does so here: a run to resume, `fedsim verify` to replay, and the other
commands to show what has been committed so far.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, decode
from fedsim.disk.tables import Record
from fedsim.engine.run import COMPLETED
from fedsim.errors import CheckpointError, CorruptError

LOG = "log.jsonl"


def name_of(number: int) -> str:
    """The file name of a commit: at least six digits, so that later names do not sort as text."""
    return f"state-{number:06}.ckpt"


def number_of(name: str) -> int:
    """The number of a commit by its file name; −1 for a name that `name_of` does not give.

    >>> number_of("state-000012.ckpt"), number_of("state-1000000.ckpt"), number_of("state-12.ckpt")
    (12, 1000000, -1)
    """
    match = re.fullmatch(r"state-([0-9]{6,18})\.ckpt", name)
    if match is None:
        return -1
    number = int(match[1])
    return number if name_of(number) == name else -1


def commit_files(folder: Path) -> list[Path]:
    """The commits in a folder, oldest first; files with other names are ignored."""
    with files.reporting_os_errors(folder):
        paths = [path for path in folder.iterdir() if number_of(path.name) >= 0]
    return sorted(paths, key=lambda path: number_of(path.name))


def has_commits(folder: Path) -> bool:
    """Whether a run has committed anything in a folder, which need not exist."""
    return folder.is_dir() and bool(commit_files(folder))


class Extent(NamedTuple):
    """The beginning of a log: its length in bytes, and its SHA-256."""

    length: int
    sha256: str


class Commit(NamedTuple):
    """A commit as it is on the disk.

    Attributes:
      identity: everything that determines the bits of its run.
      files: names of the files in the folder that it refers to.
      status: `running`, or how the run ended.
      full: the complete log.
      reopened: the part of the log that a run with more rounds would have, too.
    """

    path: Path
    identity: dict[str, Any]
    files: list[str]
    run: Snapshot
    round: int
    status: str
    full: Extent
    reopened: Extent

    def is_reopened(self, rounds: int) -> bool:
        """Whether the run had ended, and resumes from here now that it has more rounds."""
        return self.status in COMPLETED and self.round < rounds

    def extent(self, rounds: int) -> Extent:
        """The part of the log that belongs to a run of so many rounds; the rest is overwritten."""
        return self.reopened if self.is_reopened(rounds) else self.full


class Log(NamedTuple):
    """The beginning of a log as bytes, and its rows by table."""

    text: bytes
    tables: dict[str, list[Record]]


def read_commit(path: Path) -> Commit:
    """Read a commit.

    Raises:
      FileNotFoundError: when it is gone.
      CorruptError: when it is not what was written.
      CheckpointError: when a fedsim with another format wrote it.
    """
    with _naming_damage(path):
        values, arrays = decode(path.read_bytes())
        identity = values["identity"]
        log = values["log"]
        names = values["files"]
        run = values["run"]
        return Commit(
            path=path,
            identity=identity,
            files=names,
            run=Snapshot(run, arrays),
            round=int(run["round"]),
            status=str(run["status"]),
            full=Extent(int(log["length"]), log["sha256"]),
            reopened=Extent(int(log["open"]), log["open_sha256"]),
        )


def read_log(commit: Commit, extent: Extent) -> Log:
    """Read the log of a commit as far as one of its extents.

    Raises:
      CorruptError: when it is not what was written.
    """
    text = b""
    with contextlib.suppress(FileNotFoundError):
        text = commit.path.with_name(LOG).read_bytes()[: extent.length]
    if len(text) < extent.length or hashlib.sha256(text).hexdigest() != extent.sha256:
        raise CorruptError(f"{commit.path}: does not match {LOG}, which is damaged")

    tables: dict[str, list[Record]] = {}
    with _naming_damage(commit.path):
        for line in text.splitlines():
            table, row = json.loads(line)
            tables.setdefault(table, []).append(dict(row))
    return Log(text, tables)


@contextlib.contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Raise whatever is wrong with a commit as a CheckpointError that names its file."""
    try:
        yield
    except CheckpointError as error:
        raise type(error)(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptError(f"{path}: is damaged: {type(error).__name__}: {error}") from None


class Committed(NamedTuple):
    """What a run had committed when its journal was read from outside.

    Attributes:
      status: `running`, or how the run ended.
    """

    tables: dict[str, list[Record]]
    round: int
    status: str


def committed(folder: Path, rounds: int) -> Committed | None:
    """Read a journal up to its newest intact commit; None before the first one.

    Nothing is written or locked. Another process may be writing there: it appends rows before the
    commit that names them, and deletes commits only after writing newer ones. So whatever a commit
    names exists as long as the commit does, and when a commit is gone there is a newer one.

    Args:
      rounds: the run's rounds; of a run that ended earlier and is to resume, rows that a longer run
        does not have are left out.

    Raises:
      CheckpointError: when there are commits, and none can be read.
    """
    while folder.is_dir():
        paths = commit_files(folder)
        if not paths:
            return None
        problems = []
        for path in reversed(paths):
            try:
                return _read_committed(path, rounds)
            except FileNotFoundError:
                continue
            except CheckpointError as error:
                problems.append(str(error))
        # New commits may have been written meanwhile; then the journal is read again.
        if paths == commit_files(folder):
            raise CheckpointError("\n".join(problems))
    return None


def _read_committed(path: Path, rounds: int) -> Committed:
    commit = read_commit(path)
    tables = read_log(commit, commit.extent(rounds)).tables
    status = "running" if commit.is_reopened(rounds) else commit.status
    return Committed(tables, commit.round, status)
