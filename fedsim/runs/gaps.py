"""In what two tables differ, row by row and column by column."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KEYS = ("variant", "method", "seed", "round", "client", "label")  # columns that say which row it is

Line = dict[str, str]


@dataclass(frozen=True)
class Field:
    """A value that differs."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Column:
    """How far a column differs, over the rows that both tables have."""

    name: str
    rows: int
    absolute: float | None  # the largest difference; None where there are no two numbers
    relative: float | None  # the largest one by the larger of the two numbers


@dataclass(frozen=True)
class Rows:
    """In what two tables differ."""

    a: int | None  # rows; None: there is no such table
    b: int | None
    only_a: int
    only_b: int
    differing: int
    first: str  # the first row that differs or that only one has, empty for equal tables
    fields: list[Field]  # its values
    columns: list[Column]


def gaps(a: list[Line] | None, b: list[Line] | None) -> Rows:
    """Compare two tables; None: there is none."""
    if a is None or b is None:
        one, two = (None if lines is None else len(lines) for lines in (a, b))
        return Rows(one, two, 0, 0, 0, "", [], [])
    keys = [name for name in KEYS if any(name in line for line in (*a[:1], *b[:1]))]
    for name in ("variant", "method"):  # two runs of one method each are compared row by row, whatever it is called
        if name in keys and all(len({line.get(name) for line in lines}) <= 1 for lines in (a, b)):
            keys.remove(name)
    one, two = ({tuple(line.get(name, "") for name in keys): line for line in lines} for lines in (a, b))
    both = [(key, line, two[key]) for key, line in one.items() if key in two]
    unequal = [found for found in both if found[1] != found[2]]
    alone = [key for key in (*one, *two) if (key in one) != (key in two)]
    telling = [found for found in unequal if {cell.name for cell in _cells(*found[1:])} - {"variant", "method"}]
    if unequal:
        key, *lines = (telling or unequal)[0]
        fields = _cells(*lines)
    else:
        key, fields = alone[0] if alone else (), []
    first = ", ".join(f"{name} {value}" for name, value in zip(keys, key, strict=bool(key)) if value)
    counts = (sum(key not in two for key in one), sum(key not in one for key in two), len(unequal))
    return Rows(len(a), len(b), *counts, first, fields, _columns(unequal))


def _cells(a: Line, b: Line) -> list[Field]:
    """Cells of a row that differ; a column that a table has not is `none`."""
    names = [*a, *(name for name in b if name not in a)]
    return [Field(name, a.get(name, "none"), b.get(name, "none")) for name in names if a.get(name) != b.get(name)]


def _columns(unequal: Sequence[tuple[Any, Line, Line]]) -> list[Column]:
    found: dict[str, list[tuple[float, float] | None]] = {}
    for _, a, b in unequal:
        for cell in _cells(a, b):
            found.setdefault(cell.name, []).append(_numbers(cell))
    columns = []
    for name, pairs in found.items():
        gaps = [(abs(x - y), abs(x - y) / max(abs(x), abs(y))) for x, y in filter(None, pairs)]
        largest = [max(gap) for gap in zip(*gaps, strict=True)] or [None, None]
        columns.append(Column(name, len(pairs), *largest))
    return columns


def _numbers(cell: Field) -> tuple[float, float] | None:
    """Both values as finite numbers that differ."""
    try:
        x, y = float(cell.a), float(cell.b)
    except ValueError:
        return None
    return (x, y) if math.isfinite(x - y) and x != y else None
