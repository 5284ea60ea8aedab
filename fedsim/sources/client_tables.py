"""A folder with a table for each client: one table of all of them, whose columns are the union."""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.errors import DataError
from fedsim.sources.delimited import Dialect, table_in
from fedsim.sources.files import opened
from fedsim.sources.folders import folder_files

CLIENT = "client"  # the column with the names of the files
TABLE = re.compile(r"(?P<client>[^/]+)\.(csv|tsv)(\.gz)?", re.IGNORECASE)


class ClientTables(NamedTuple):
    """The tables of all clients, one below the other.

    Cells of columns that a client's table does not have are blank, and a column `client` has the
    names of the files. The index has the file and the number of every row there.
    """

    frame: Any  # their rows, cells as texts
    absent: dict[str, list[str]]  # the columns that each file lacks, of those that others have

    def row_name(self, row: int) -> str:
        """Return what a row, counted from 0, is called: its file, and its number there."""
        return "{}, row {}".format(*self.frame.index[row])


def client_tables(
    path: str, sha256: str | None, dialect: Dialect, targets: Sequence[str] = ()
) -> ClientTables:
    """Read the tables of a folder; each is a client, which is called as the file is.

    Other files and subfolders are ignored. A column `client` that tables have is replaced by the
    names of the files.

    Raises:
      DataError: for a folder without tables, two of one client, tables without rows, without a
        target, or without a column that another has, naming the file.
    """
    with folder_files(path, sha256) as files:
        frames = {}
        for name, client in _clients(files).items():
            try:
                frames[name] = _table(files[name], dialect).assign(**{CLIENT: client})
            except DataError as error:
                # The folder is named in front of all errors.
                lines = [line.removeprefix(f"{files[name]}: ") for line in error.lines]
                raise DataError(*(f"{name}: {line}" for line in lines)) from None
        _require_common(frames, targets)
        return _joined(frames)


def require_present(tables: ClientTables, missing: str, features: Collection[str]) -> list[str]:
    """Return a line for each file that lacks features which others have.

    They are an error where the rows of such a file would be refused or dropped.
    """
    remarks = []
    problems = []
    for name, absent in tables.absent.items():
        lacking = [column for column in absent if column in features]
        if not lacking:
            continue
        remark = f"{_lacks(name, lacking)}, which others have: blank there"
        remarks.append(remark)
        reason = ", and missing: drop would leave none of its rows" if missing == "drop" else ""
        remedy = f"write missing: mean, or drop: [{', '.join(lacking)[:80]}]"
        problems.append(f"{remark}{reason}; {remedy}")
    if problems and missing in ("refuse", "drop"):
        raise DataError(*problems)
    return remarks


def _table(path: Path, dialect: Dialect) -> Any:
    """The table of a client as a DataFrame of texts, whose index numbers the rows."""
    with opened(str(path)) as file:
        frame = table_in(file, dialect)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        text = f"two columns are called {repeated[0][:40]!a}; give each its own name"
        raise DataError(text)
    if not len(frame):
        raise DataError("no samples")
    return frame


def _joined(frames: dict[str, Any]) -> ClientTables:
    import pandas as pd

    frame = pd.concat(frames).fillna("")
    absent = {
        name: [column for column in frame.columns if column not in own.columns]
        for name, own in frames.items()
    }
    return ClientTables(frame, absent)


def _clients(names: Iterable[str]) -> dict[str, str]:
    """The tables at the top of a folder: name -> client."""
    visible = (name for name in names if not name.startswith("."))
    clients = {m[0]: m["client"] for m in map(TABLE.fullmatch, visible) if m is not None}
    if not clients:
        raise DataError("holds no FILE.csv; expected a table for each client")
    first: dict[str, str] = {}
    for name, client in clients.items():
        if first.setdefault(client, name) != name:
            raise DataError(f"{first[client]} and {name}: two files of one client; rename one")
    return clients


def _require_common(tables: dict[str, Any], targets: Sequence[str]) -> None:
    """Refuse tables without the target, and a table with no further column that others have."""
    columns = {name: set(frame.columns) - {CLIENT} for name, frame in tables.items()}
    for name, own in columns.items():
        others = [other for other in columns if other != name]
        shared = own & set().union(*(columns[other] for other in others))
        if others and not shared - {*targets}:
            text = "have no feature in common; a folder holds tables with the same columns"
            raise DataError(f"{name} and {others[0]} {text}")
    for target in targets:
        lacking = [name for name, own in columns.items() if target not in own]
        # Of a name that is nowhere, a similar one is said later.
        if 0 < len(lacking) < len(columns):
            raise DataError(*(f"{_lacks(name, [target])}, the target" for name in lacking))


def _lacks(name: str, columns: list[str]) -> str:
    noun = "column" if len(columns) == 1 else "columns"
    return f"{name}: no {noun} {', '.join(ascii(column[:40]) for column in columns[:6])}"
