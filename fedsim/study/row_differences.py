"""The differences of two tables, row by row and column by column."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
class RowDifferences:
    """The differences of two tables."""

    a: int | None  # rows; None: there is no such table
    b: int | None
    only_a: int
    only_b: int
    differing: int
    first: str  # the first row that differs or that only one has, empty for equal tables
    fields: list[Field]  # its values
    columns: list[Column]


def row_differences(a: list[Line] | None, b: list[Line] | None) -> RowDifferences:
    """Compare two tables; None: there is none."""
    if a is None or b is None:
        counts = (None if lines is None else len(lines) for lines in (a, b))
        return RowDifferences(
            *counts, only_a=0, only_b=0, differing=0, first="", fields=[], columns=[]
        )
    keys = [name for name in KEYS if any(name in line for line in (*a[:1], *b[:1]))]
    for name in (
        "variant",
        "method",
    ):  # two runs of one method each are compared row by row, whatever it is called
        if name in keys and all(len({line.get(name) for line in lines}) <= 1 for lines in (a, b)):
            keys.remove(name)
    one, two = (
        {tuple(line.get(name, "") for name in keys): line for line in lines} for lines in (a, b)
    )
    unequal = [
        (key, line, two[key]) for key, line in one.items() if key in two and line != two[key]
    ]
    numeric = [
        pair
        for pair in unequal
        if {field.name for field in _fields(*pair[1:])} - {"variant", "method"}
    ]
    single = [key for key in (*one, *two) if (key in one) != (key in two)]
    key, fields = (single[0] if single else ()), []
    if unequal:
        key, *lines = (numeric or unequal)[0]
        fields = _fields(*lines)
    return RowDifferences(
        a=len(a),
        b=len(b),
        only_a=sum(key not in two for key in one),
        only_b=sum(key not in one for key in two),
        differing=len(unequal),
        first=", ".join(
            f"{name} {value}" for name, value in zip(keys, key, strict=bool(key)) if value
        ),
        fields=fields,
        columns=_columns(unequal),
    )


def _fields(a: Line, b: Line) -> list[Field]:
    """Cells of a row that differ; a column that a table has not is `none`."""
    names = [*a, *(name for name in b if name not in a)]
    return [
        Field(name, a.get(name, "none"), b.get(name, "none"))
        for name in names
        if a.get(name) != b.get(name)
    ]


def _columns(unequal: Sequence[tuple[tuple[str, ...], Line, Line]]) -> list[Column]:
    by_name: dict[str, list[tuple[float, float] | None]] = {}
    for _, a, b in unequal:
        for field in _fields(a, b):
            by_name.setdefault(field.name, []).append(_numbers(field))
    columns = []
    for name, pairs in by_name.items():
        gaps = [(abs(x - y), abs(x - y) / max(abs(x), abs(y))) for x, y in filter(None, pairs)]
        largest = [max(gap) for gap in zip(*gaps, strict=True)] or [None, None]
        columns.append(Column(name, len(pairs), *largest))
    return columns


def _numbers(field: Field) -> tuple[float, float] | None:
    """Both values as finite numbers that differ."""
    try:
        x, y = float(field.a), float(field.b)
    except ValueError:
        return None
    return (x, y) if math.isfinite(x - y) and x != y else None
