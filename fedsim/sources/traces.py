"""Traces: what was measured of devices, and who took part when, in tables of numbers by client."""

from array import array
from collections.abc import Mapping, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import numbered
from fedsim.sources.cells import as_number, ids
from fedsim.sources.delimited import chunks_of, table_in
from fedsim.sources.faults import Faults
from fedsim.sources.files import opened

MOST_BYTES = 1 << 30  # of a file
MOST_NUMBER = 2**31 - 1  # of a client or a round
CLIENT, ROUND = "client", "round"


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

    texts: list[str]  # cells of the column of ids; none without one
    values: np.ndarray  # of the other columns [n, columns]
    lines: Sequence[int]  # of the file
    faults: Faults  # in it, so far
    places: list[int]  # of the columns in the header


def trace_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> Trace:
    """The numbers in some columns of a CSV with a header and a column `client`; other columns are left alone.

    Args:
      path: of the file, plain or gzipped.
      sha256: what its content must hash to.
      columns: name -> the smallest number that may stand in it.

    Raises:
      DataError: for a file that is no such table, naming lines and columns.
    """
    with opened(path, sha256, MOST_BYTES) as file:
        table = _columns(file, columns, ids_in=CLIENT)
        named = ids(table.texts, table.lines, table.places[0], table.faults, CLIENT, "row")
        table.faults.raise_any()
        if not table.texts:
            raise DataError("no rows below the header; a trace has a row for each client at least")
        device, names = numbered(named)
        return Trace(device, len(names), table.values, np.array(table.lines))


def participations_of(path: str, sha256: str | None) -> Participations:
    """Who takes part in which round, from a CSV with a header and the columns `round` and `client`, both whole numbers.

    Args:
      path: of the file, plain or gzipped.
      sha256: what its content must hash to.

    Raises:
      DataError: for a file that is no such table, and for a round without a row, naming lines and columns.
    """
    with opened(path, sha256, MOST_BYTES) as file:
        table = _columns(file, {ROUND: 1, CLIENT: 0}, noun="whole number")
        for column, place in enumerate(table.places):
            values = table.values[:, column]
            wrong = (values % 1 != 0) | (values > MOST_NUMBER)
            for i in np.flatnonzero(np.isfinite(values) & wrong).tolist():
                table.faults.add(
                    table.lines[i], place, f"{values[i]:g} is no whole number up to {MOST_NUMBER}"
                )
        table.faults.raise_any()
        if not len(table.values):
            raise DataError(
                "no rows below the header; every round has a row for each of its clients"
            )
        rounds, clients = table.values.astype(np.int64).T
        present = np.unique(rounds)
        gap = np.flatnonzero(present != np.arange(1, len(present) + 1))
        if len(gap):
            raise DataError(
                f"round {gap[0] + 1} has no row, and round {present[-1]} has; number the rounds 1, 2, 3, ..."
            )
        return Participations(rounds, clients, np.array(table.lines))


def _columns(
    file: BinaryIO,
    columns: Mapping[str, float],
    ids_in: str | None = None,
    noun: str = "time or rate",
) -> _Table:
    """Columns of a CSV with a header: one of ids as text, where there is one, and others as numbers.

    Args:
      file: opened for bytes.
      columns: name -> the smallest number that may stand in it.
      ids_in: the column of ids.
      noun: what the numbers are, for faults.

    Raises:
      DataError: for a file without these columns.
    """
    wanted = [*([] if ids_in is None else [ids_in]), *columns]
    with table_in(file, ",", wanted[0]) as (header, rows):
        if missing := [name for name in wanted if header.count(name) != 1]:
            listed = ", ".join(ascii(name[:40]) for name in header[:6]) or "nothing"
            wrong = "twice in the header" if missing[0] in header else f"no column; found {listed}"
            raise DataError(
                f"line 1: {missing[0]!a} is {wrong}; the columns {', '.join(wanted)} are needed"
            )
        faults = Faults("line", header)
        places = [header.index(name) for name in wanted]
        texts: list[str] = []
        lines = array("q")
        cells = array("d")
        for chunk, numbers in chunks_of(rows, len(header), faults):
            table = list(zip(*chunk, strict=True))
            if ids_in is not None:
                texts += table[places[0]]
            lines.extend(numbers)
            known = zip(places[len(wanted) - len(columns) :], columns.values(), strict=True)
            block = [
                _numbers(table[place], numbers, place, least, faults, noun)
                for place, least in known
            ]
            cells.frombytes(np.stack(block, axis=1).tobytes())
    return _Table(
        texts, np.frombuffer(cells).reshape(len(lines), len(columns)), lines, faults, places
    )


def devices_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> np.ndarray:
    """A trace with one row for each client: its numbers `[devices, columns]` in the order of the sorted ids.

    Raises:
      DataError: as `trace_of`, and for clients with several rows.
    """
    trace = trace_of(path, sha256, columns)
    order = np.argsort(trace.device, kind="stable")
    again = np.flatnonzero(np.diff(trace.device[order]) == 0)
    if len(again):
        first, second = (int(trace.lines[order[again[0] + i]]) for i in (0, 1))
        raise DataError(
            f"line {second}: the client stands in line {first} already; give each one row"
        ).within(path)
    return trace.values[order]


def _numbers(
    cells: tuple[str, ...], lines: list[int], place: int, least: float, faults: Faults, noun: str
) -> np.ndarray:
    """Finite numbers of a column, none below the least; others are faults."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        known = [as_number(cell.strip()) for cell in cells]
        values = np.array([np.nan if value is None else value for value in known])
    for i in np.flatnonzero(~(np.isfinite(values) & (values >= least))).tolist():
        low = f" and at least {least:g}" if values[i] < least else ""
        faults.add(
            lines[i], place, f"{cells[i].strip()[:40]!a} is no {noun}; write a finite number{low}"
        )
    return values
