"""The log of a run and its commits, as they lie on the disk: whoever reads them does it here.

A run reads them to go on, `fedsim verify` to replay, and everybody else to look at what is there so
far.
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
    """The file of a commit: at least six digits, so names of later commits do not sort as text."""
    return f"state-{number:06}.ckpt"


def number_of(name: str) -> int:
    """The number of a commit by the name of its file; −1 for a name that `name_of` does not give.

    >>> number_of("state-000012.ckpt"), number_of("state-1000000.ckpt"), number_of("state-12.ckpt")
    (12, 1000000, -1)
    """
    match = re.fullmatch(r"state-([0-9]{6,18})\.ckpt", name)
    return int(match[1]) if match and name_of(int(match[1])) == name else -1


def commits(folder: Path) -> list[Path]:
    """The commits in a folder, oldest first; other files that lie there are none."""
    with files.naming(folder):
        paths = [path for path in folder.iterdir() if number_of(path.name) >= 0]
    return sorted(paths, key=lambda path: number_of(path.name))


class Extent(NamedTuple):
    """The beginning of a log: how many bytes, and their SHA-256."""

    length: int
    sha256: str


class Commit(NamedTuple):
    """A commit as it lies on the disk.

    Attributes:
      path: its file.
      identity: everything that determines the bits of its run.
      refers: files of the folder that it refers to.
      run: the state of the run.
      round: of the run.
      status: `running`, or how the run ended.
      whole: all of the log that there was.
      open: what of it would be there as well, were the run to go on for more rounds.
    """

    path: Path
    identity: dict[str, Any]
    refers: list[str]
    run: Snapshot
    round: int
    status: str
    whole: Extent
    open: Extent

    def goes_on(self, rounds: int) -> bool:
        """Whether the run had ended, and one of so many rounds goes on from there."""
        return self.status in COMPLETED and self.round < rounds

    def extent(self, rounds: int) -> Extent:
        """What of the log belongs to a run of so many rounds; the rest may be overwritten."""
        return self.open if self.goes_on(rounds) else self.whole


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
    with _damage_of(path):
        values, arrays = decode(path.read_bytes())
        identity, log, refers, run = (values[name] for name in ("identity", "log", "files", "run"))
        return Commit(
            path=path,
            identity=identity,
            refers=refers,
            run=Snapshot(run, arrays),
            round=int(run["round"]),
            status=str(run["status"]),
            whole=Extent(int(log["length"]), log["sha256"]),
            open=Extent(int(log["open"]), log["open_sha256"]),
        )


def read_log(commit: Commit, extent: Extent) -> Log:
    """Read the log of a commit, as far as its `whole` or its `open` goes.

    Raises:
      CorruptError: when that is not what was written.
    """
    text = b""
    with contextlib.suppress(FileNotFoundError):
        text = commit.path.with_name(LOG).read_bytes()[: extent.length]
    if len(text) < extent.length or hashlib.sha256(text).hexdigest() != extent.sha256:
        raise CorruptError(f"{commit.path}: does not fit {LOG}, which is damaged")
    tables: dict[str, list[Record]] = {}
    with _damage_of(commit.path):
        for line in text.splitlines():
            table, row = json.loads(line)
            tables.setdefault(table, []).append(dict(row))
    return Log(text, tables)


@contextlib.contextmanager
def _damage_of(path: Path) -> Iterator[None]:
    """Whatever is wrong with a commit, with its name."""
    try:
        yield
    except CheckpointError as error:
        raise type(error)(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptError(f"{path}: is damaged: {type(error).__name__}: {error}") from None


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
    """What a journal holds up to its newest whole commit; None before the first one.

    Nothing is written or locked. Another process may be writing there: it appends rows before the
    commit that names them, and deletes commits only after newer ones. So whatever a commit names is
    there once the commit is, and where one is gone there is a newer one.

    Args:
      folder: of the journal.
      rounds: of the run: where it ended earlier and is to go on, what a longer run has not is left
        out.

    Raises:
      CheckpointError: when there are commits, and none can be read.
    """
    while folder.is_dir() and (paths := commits(folder)):
        problems = []
        for path in paths[::-1]:
            try:
                commit = read_commit(path)
                tables = read_log(commit, commit.extent(rounds)).tables
                status = "running" if commit.goes_on(rounds) else commit.status
                return Committed(tables, commit.round, status)
            except FileNotFoundError:
                continue
            except CheckpointError as error:
                problems.append(str(error))
        if paths == commits(folder):
            raise CheckpointError("\n".join(problems))
    return None
