"""Traces: what was measured of devices, in tables of numbers by client."""

from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import numbered
from fedsim.sources.cells import as_number, ids
from fedsim.sources.delimited import chunks_of, table_in
from fedsim.sources.faults import Faults
from fedsim.sources.files import opened

MOST_BYTES = 1 << 30  # of a file
CLIENT = "client"


class Trace(NamedTuple):
    """The rows of a trace, in the order of the file."""

    device: np.ndarray  # of each row [n], 0, 1, … in the order of the sorted ids
    devices: int
    values: np.ndarray  # [n, columns]
    lines: np.ndarray  # of the file [n]


def trace_of(path: str, sha256: str | None, columns: Mapping[str, float]) -> Trace:
    """The numbers in some columns of a CSV with a header and a column `client`; other columns are left alone.

    Args:
      path: of the file, plain or gzipped.
      sha256: what its content must hash to.
      columns: name -> the smallest number that may stand in it.

    Raises:
      DataError: for a file that is no such table, naming lines and columns.
    """
    with opened(path, sha256, MOST_BYTES) as file, table_in(file, ",", CLIENT) as (header, rows):
        wanted = (CLIENT, *columns)
        if missing := [name for name in wanted if header.count(name) != 1]:
            listed = ", ".join(ascii(name[:40]) for name in header[:6]) or "nothing"
            wrong = "twice in the header" if missing[0] in header else f"no column; found {listed}"
            raise DataError(f"line 1: {missing[0]!a} is {wrong}; the columns {', '.join(wanted)} are needed")
        faults, places = Faults("line", header), [header.index(name) for name in wanted]
        clients: list[str] = []
        lines, cells = array("q"), array("d")
        for chunk, numbers in chunks_of(rows, len(header), faults):
            table = list(zip(*chunk, strict=True))
            clients += table[places[0]]
            lines.extend(numbers)
            known = zip(places[1:], columns.values(), strict=True)
            block = [_numbers(table[place], numbers, place, least, faults) for place, least in known]
            cells.frombytes(np.stack(block, axis=1).tobytes())
        named = ids(clients, lines, places[0], faults, CLIENT, "row")
        faults.raise_any()
        if not clients:
            raise DataError("no rows below the header; a trace has a row for each client at least")
        device, names = numbered(named)
        return Trace(device, len(names), np.frombuffer(cells).reshape(len(lines), len(columns)), np.array(lines))


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
        raise DataError(f"line {second}: the client stands in line {first} already; give each one row").within(path)
    return trace.values[order]


def _numbers(cells: tuple[str, ...], lines: list[int], place: int, least: float, faults: Faults) -> np.ndarray:
    """Finite numbers of a column, none below the least; others are faults."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        known = [as_number(cell.strip()) for cell in cells]
        values = np.array([np.nan if value is None else value for value in known])
    for i in np.flatnonzero(~(np.isfinite(values) & (values >= least))).tolist():
        low = f" and at least {least:g}" if values[i] < least else ""
        faults.add(lines[i], place, f"{cells[i].strip()[:40]!a} is no time or rate; write a finite number{low}")
    return values
