"""Traces: measurements of devices, and who took part when, as tables of numbers by client."""

from collections.abc import Mapping, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.cells import parse_ids, parse_number
from fedsim.sources.delimited import Dialect, rows_of, table_in
from fedsim.sources.faults import Faults
from fedsim.sources.files import opened
from fedsim.sources.ids import number_ids

MAX_BYTES = 1 << 30  # of a file
MAX_NUMBER = 2**31 - 1  # of a client or a round
CLIENT = "client"
ROUND = "round"
SOURCE = "source"
TARGET = "target"


class Trace(NamedTuple):
    """The rows of a trace, in the order of the file."""

    device: np.ndarray  # of each row [n], 0, 1, … in the order of the sorted ids
    devices: int
    values: np.ndarray  # [n, columns]
    lines: np.ndarray  # of the file [n]


class Participations(NamedTuple):
    """Which client took part in which round, in the order of the file."""

    round: np.ndarray  # of each row [n], from 1 on
    client: np.ndarray  # its number [n]
    lines: np.ndarray  # of the file [n]


class _Table(NamedTuple):
    """Some columns of a table as read."""

    texts: Sequence[str]  # cells of the column of ids; empty without one
    values: np.ndarray  # of the columns of numbers [n, columns]
    lines: Sequence[int]  # of the file
    faults: Faults  # so far
    indices: list[int]  # of the columns in the header; that of the ids is the first


def trace_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> Trace:
    """Read columns of numbers from a CSV with a header and a column `client`.

    Args:
      path: the file, plain or gzipped.
      sha256: the expected hash of its content; None: any.
      columns: name -> the smallest number that may occur in it; other columns are ignored.

    Raises:
      DataError: naming lines and columns, for a file that is not such a table.
    """
    with opened(path, sha256, MAX_BYTES) as file:
        table = _read(file, columns, id_column=CLIENT)
        device_ids = parse_ids(
            table.texts, table.lines, table.indices[0], table.faults, CLIENT, "row"
        )
        table.faults.raise_any()
        if not table.texts:
            raise DataError(
                "no rows below the header; a trace has at least one row for each client"
            )
        device, names = number_ids(device_ids)
        return Trace(device, len(names), table.values, np.array(table.lines))


def participations_of(path: str, sha256: str | None) -> Participations:
    """Read who takes part in which round from a CSV with the columns `round` and `client`.

    Both columns hold whole numbers.

    Args:
      path: the file, plain or gzipped.
      sha256: the expected hash of its content; None: any.

    Raises:
      DataError: naming lines and columns, for a file that is not such a table, and for a round
        without a row.
    """
    with opened(path, sha256, MAX_BYTES) as file:
        table = _read(file, {ROUND: 1, CLIENT: 0}, noun="whole number")
        _require_whole_numbers(table)
        if not len(table.values):
            raise DataError(
                "no rows below the header; every round has a row for each of its clients"
            )

        rounds, clients = table.values.astype(np.int64).T
        present = np.unique(rounds)
        gaps = np.flatnonzero(present != np.arange(1, len(present) + 1))
        if len(gaps):
            raise DataError(
                f"round {gaps[0] + 1} has no row, but round {present[-1]} has; "
                "number the rounds 1, 2, 3, ..."
            )
        return Participations(rounds, clients, np.array(table.lines))


def edges_of(path: str, sha256: str | None) -> np.ndarray:
    """Read the edges of a graph from a CSV with the columns `source` and `target` `[E, 2]`.

    Both columns hold whole numbers.

    Args:
      path: the file, plain or gzipped.
      sha256: the expected hash of its content; None: any.

    Raises:
      DataError: naming lines and columns, for a file that is not such a table.
    """
    with opened(path, sha256, MAX_BYTES) as file:
        table = _read(file, {SOURCE: 0, TARGET: 0}, noun="whole number")
        _require_whole_numbers(table)
        if not len(table.values):
            raise DataError("no rows below the header; every edge has a row")
        return table.values.astype(np.int64)


def devices_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> np.ndarray:
    """Read a trace with one row for each client -> numbers `[devices, columns]`.

    Devices are in the order of the sorted ids. Arguments are those of `trace_of`.

    Raises:
      DataError: as `trace_of`, and for clients with several rows.
    """
    trace = trace_of(path, sha256, columns)
    order = np.argsort(trace.device, kind="stable")
    repeated = np.flatnonzero(np.diff(trace.device[order]) == 0)
    if len(repeated):
        first, second = trace.lines[order[repeated[0] : repeated[0] + 2]].tolist()
        raise DataError(
            f"line {second}: the client is in line {first} already; give each client one row"
        ).with_prefix(path)
    return trace.values[order]


def _read(
    file: BinaryIO,
    columns: Mapping[str, float],
    id_column: str | None = None,
    noun: str = "time or rate",
) -> _Table:
    """Read columns of a CSV with a header: numbers, and ids as text.

    Args:
      file: the file, opened for bytes.
      columns: name -> the smallest number that may occur in it.
      id_column: the column of ids, if there is one.
      noun: what the numbers are, for faults.

    Raises:
      DataError: for a file without these columns.
    """
    required = list(columns) if id_column is None else [id_column, *columns]
    with table_in(file, Dialect(","), required[0]) as (header, rows):
        _require_columns(header, required)
        faults = Faults("line", header)
        indices = [header.index(name) for name in required]
        cells, lines = rows_of(rows, faults)
    values = [
        _numbers(cells[header.index(name)], lines, header.index(name), least, noun, faults)
        for name, least in columns.items()
    ]
    texts = [] if id_column is None else cells[indices[0]]
    return _Table(texts, np.stack(values, axis=1), lines, faults, indices)


def _require_whole_numbers(table: _Table) -> None:
    """Refuse a table whose columns of numbers have others than whole ones.

    Raises:
      DataError: with all faults of the table so far.
    """
    for column, index in enumerate(table.indices):
        values = table.values[:, column]
        wrong = (values % 1 != 0) | (values > MAX_NUMBER)
        for i in np.flatnonzero(np.isfinite(values) & wrong).tolist():
            fault = f"{values[i]:g} is not a whole number up to {MAX_NUMBER}"
            table.faults.add(table.lines[i], index, fault)
    table.faults.raise_any()


def _require_columns(header: list[str], required: list[str]) -> None:
    for name in required:
        if header.count(name) == 1:
            continue
        if name in header:
            problem = f"column {name!a} is twice in the header"
        else:
            listed = ", ".join(ascii(column[:40]) for column in header[:6]) or "nothing"
            problem = f"no column {name!a}; found {listed}"
        raise DataError(f"line 1: {problem}; the columns {', '.join(required)} are needed")


def _numbers(
    cells: Sequence[str],
    lines: Sequence[int],
    column: int,
    minimum: float,
    noun: str,
    faults: Faults,
) -> np.ndarray:
    """The finite numbers of a column; others, and those below the minimum, are faults."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        parsed = [parse_number(cell.strip()) for cell in cells]
        values = np.array([np.nan if value is None else value for value in parsed])
    for i in np.flatnonzero(~(np.isfinite(values) & (values >= minimum))).tolist():
        problem = f"{cells[i].strip()[:40]!a} is not a {noun}"
        remedy = "write a finite number"
        if values[i] < minimum:
            remedy += f" and at least {minimum:g}"
        faults.add(lines[i], column, f"{problem}; {remedy}")
    return values
