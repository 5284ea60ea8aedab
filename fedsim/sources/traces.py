"""Traces: measurements of devices, and who took part when, as tables of numbers by client."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.cells import Column, numbers_in, parse_ids
from fedsim.sources.columns import column_in
from fedsim.sources.delimited import Dialect, table_in
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
    rows: np.ndarray  # their numbers in the file [n]


class Participations(NamedTuple):
    """Which client took part in which round, in the order of the file."""

    round: np.ndarray  # of each row [n], from 1 on
    client: np.ndarray  # its number [n]
    rows: np.ndarray  # their numbers in the file [n]


def trace_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> Trace:
    """Read columns of numbers from a CSV with a header and a column `client`, plain or gzipped.

    `columns` has the smallest number that may occur in each; other columns are ignored.
    """
    values, rows = _read(path, sha256, {CLIENT: None, **columns})
    device, names = number_ids(values[CLIENT])
    return Trace(device, len(names), np.stack([values[name] for name in columns], axis=1), rows)


def participations_of(path: str, sha256: str | None) -> Participations:
    """Read who takes part in which round from a CSV with the columns `round` and `client`.

    Both columns hold whole numbers, and every round has a row.
    """
    values, rows = _read(path, sha256, {ROUND: 1, CLIENT: 0}, whole=True)
    present = np.unique(values[ROUND])
    gaps = np.flatnonzero(present != np.arange(1, len(present) + 1))
    if len(gaps):
        raise DataError(
            f"round {gaps[0] + 1} has no row, but round {present[-1]} has; "
            "number the rounds 1, 2, 3, ..."
        ).with_prefix(path)
    return Participations(values[ROUND], values[CLIENT], rows)


def edges_of(path: str, sha256: str | None) -> np.ndarray:
    """Read the edges of a graph from a CSV with whole numbers `source` and `target` `[E, 2]`."""
    values, _ = _read(path, sha256, {SOURCE: 0, TARGET: 0}, whole=True)
    return np.stack([values[SOURCE], values[TARGET]], axis=1)


def devices_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> np.ndarray:
    """Read a trace with one row for each client, as `trace_of` -> numbers `[devices, columns]`.

    Devices are in the order of the sorted ids; clients with several rows are refused.
    """
    trace = trace_of(path, sha256, columns)
    order = np.argsort(trace.device, kind="stable")
    repeated = np.flatnonzero(np.diff(trace.device[order]) == 0)
    if len(repeated):
        first, second = trace.rows[order[repeated[0] : repeated[0] + 2]].tolist()
        raise DataError(
            f"row {second}: the client is in row {first} already; give each client one row"
        ).with_prefix(path)
    return trace.values[order]


def _read(
    path: str, sha256: str | None, columns: Mapping[str, float | None], whole: bool = False
) -> tuple[dict[str, Any], np.ndarray]:
    """Return columns of a CSV with a header, by name, and the numbers of its rows.

    `columns` has the smallest number that may occur in each; None: it holds ids. Numbers are
    `whole` where they are those of a client or a round.
    """
    with opened(path, sha256, MAX_BYTES) as file:
        frame = table_in(file, Dialect(","))
        role = f"the columns {', '.join(columns)} are needed"
        faults = Faults(list(frame.columns), lambda row: f"row {frame.index[row]}")
        read = {name: column_in(frame, name, faults, role) for name in columns}
        if not len(frame):
            raise DataError("no rows below the header")
        values = {}
        for name, least in columns.items():
            if least is None:
                values[name] = parse_ids(read[name], name, "row")
            else:
                values[name] = _numbers(read[name], least, whole)
        faults.raise_any()
        return values, frame.index.to_numpy()


def _numbers(column: Column, least: float, whole: bool) -> np.ndarray:
    """The numbers of a column `[n]`; cells with others are faults."""
    values = numbers_in(column.cells)
    sound = np.isfinite(values) & (values >= least)
    noun = "time or rate"
    if whole:
        sound &= (values % 1 == 0) & (values <= MAX_NUMBER)
        noun = f"whole number up to {MAX_NUMBER}"
    column.add(~sound, f"{{}} is not a {noun}; write a finite number and at least {least:g}")
    return np.where(sound, values, least).astype(np.int64) if whole else values
