"""Tables: one row per sample, read cell by cell, so that every fault has a line and a column."""

import csv as text
import io
import itertools
from array import array
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

import numpy as np

from fedsim.compose import dataset
from fedsim.data.arrays import Arrays
from fedsim.data.files import Name, opened
from fedsim.errors import DataError

MOST_CHARACTERS = 4 << 20  # of a line


@dataset
def csv(path: Name, target: Name = "y", client: Name | None = None, sha256: str | None = None) -> Arrays:
    """A table in UTF-8 with a header: one row per sample, a target column, perhaps a client column, numbers elsewhere.

    A target column of whole numbers holds classes, one with any other number (`1.0` too) regression targets.

    Args:
      path: of the file, from the scenario's folder, the working directory or a `--data-root`; elsewhere none is read.
      target: column of the labels.
      client: column of the client ids; left out: `client`, if there is such a column.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such a table, naming file, line and column.
    """
    with opened(path, sha256) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
        rows = text.reader(_bounded(lines), strict=True)
        try:
            header = next(rows, [])
            return _table(rows, header, *_columns(header, target, client))
        except text.Error as error:
            raise DataError(f"line {rows.line_num}: {error}") from None
        except UnicodeDecodeError as error:
            raise DataError(
                f"not UTF-8 text near line {rows.line_num + 1}: {error.reason}; save the table as UTF-8"
            ) from None


def _bounded(lines: io.TextIOWrapper) -> Iterator[str]:
    """Lines, none of them so long that its cells would fill the memory."""
    for number in itertools.count(1):
        line = lines.readline(MOST_CHARACTERS + 1)
        if len(line) > MOST_CHARACTERS:
            raise DataError(f"line {number}: longer than {MOST_CHARACTERS} characters; put a sample on each line")
        if not line:
            return
        yield line


def _columns(header: list[str], target: str, client: str | None) -> tuple[int, int | None]:
    """Places of the target and of the client column."""
    if not header:
        raise DataError("empty: a header with column names is needed")
    twice, count = Counter(header).most_common(1)[0]
    if count > 1:
        raise DataError(f"{'two' if count == 2 else count} columns are called {twice[:40]!a}; give each its own name")
    for role, name in (("target", target), ("client", client)):
        if name is not None and name not in header:
            raise DataError(f"{role}: no column {name[:40]!a}; {_instead(name, header)}")
    if client is None and "client" in header:
        client = "client"
    if client == target:
        raise DataError(f"column {target!a} cannot be both target and client")
    if len(header) < 2 + (client is not None):
        raise DataError(f"no feature columns besides {target!a}")
    return header.index(target), None if client is None else header.index(client)


def _instead(name: str, header: list[str]) -> str:
    """A column with a name like the one asked for, or the first ones that there are."""
    near = get_close_matches(name[:40], [column for column in header[:1000] if len(column) < 60], 1, 0.6)
    listed = ", ".join(ascii(column[:40]) for column in header[:6])
    return f"did you mean {near[0]!a}?" if near else f"there are {listed}{' ...' * (len(header) > 6)}"


def _table(rows, header: list[str], target: int, client: int | None) -> Arrays:
    cells, labels, ids, lines = array("d"), [], [], array("q")
    names = [name for place, name in enumerate(header) if place not in (target, client)]
    taken = sorted({target, client} - {None}, reverse=True)
    for row in rows:
        if not row:
            continue  # an empty line
        if len(row) != len(header):
            raise DataError(f"line {rows.line_num}: {len(row)} cells, the header names {len(header)} columns")
        labels.append(row[target])
        if client is not None:
            ids.append(row[client])
        for place in taken:
            del row[place]
        try:
            cells.extend(map(float, row))
        except ValueError:
            raise DataError(f"line {rows.line_num}: {_no_number(names, row)}") from None
        lines.append(rows.line_num)
    if not labels:
        raise DataError("no samples below the header")
    x = np.frombuffer(cells).reshape(len(labels), -1)
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise DataError(f"line {lines[row]}, column {names[column]!a}: {x[row, column]} is no number to learn from")
    return Arrays(
        x, _labels(labels, header[target], lines), None if client is None else _ids(ids, header[client], lines)
    )


def _no_number(names: list[str], row: list[str]) -> str:
    wrong = ((name, cell) for name, cell in zip(names, row, strict=True) if not _is_number(cell))
    return next((f"column {name!a}: {cell[:40]!a} is no number" for name, cell in wrong), "no numbers")


def _labels(cells: list[str], name: str, lines) -> np.ndarray:
    """Classes if all are whole numbers, else targets."""
    for kind in (int, float):
        try:
            y = np.array(list(map(kind, cells)), np.int64 if kind is int else np.float64)
        except (ValueError, OverflowError):
            continue
        bad = y < 0 if kind is int else ~np.isfinite(y)
        if bad.any():
            why = "classes are 0, 1, 2, ..." if kind is int else "no target to learn from"
            raise DataError(f"line {lines[bad.argmax()]}, column {name!a}: {y[bad.argmax()]}: {why}")
        return y
    row = next(i for i, cell in enumerate(cells) if not _is_number(cell))
    text = f"{cells[row][:40]!a} is no number; number the classes 0, 1, 2, ..."
    raise DataError(f"line {lines[row]}, column {name!a}: {text}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ids(cells: list[str], name: str, lines) -> np.ndarray:
    """Whole numbers if all are, so that 10 comes behind 9; else text."""
    if "" in cells:
        raise DataError(f"line {lines[cells.index('')]}, column {name!a}: a sample without a client id")
    try:
        return np.array(list(map(int, cells)), np.int64)
    except (ValueError, OverflowError):
        return np.array(cells)
