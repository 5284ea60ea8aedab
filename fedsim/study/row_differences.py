"""The differences of two tables, row by row and column by column."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

KEYS = ("variant", "method", "seed", "round", "client", "label")  # columns that identify a row
LABELS = ("variant", "method")  # of these, the ones that are labels given by the user

Line = dict[str, str]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Field:
    """A value that differs."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Column:
    """How far a column differs, over the rows that both tables have.

    Attributes:
      rows: in how many rows it differs.
      absolute: the largest difference of two numbers; None if there are none.
      relative: the largest difference as a fraction of the larger of the two numbers.
    """

    name: str
    rows: int
    absolute: float | None
    relative: float | None


@dataclass(frozen=True)
class RowDifferences:
    """The differences of two tables.

    Attributes:
      a: the number of rows of the first table; None if there is no such table.
      only_a: how many rows only the first table has.
      differing: how many rows both have, with different values.
      first: the first row that differs or that only one has; empty if the tables are equal.
      fields: the values of that row that differ.
      columns: how far every column differs.
    """

    a: int | None
    b: int | None
    only_a: int = 0
    only_b: int = 0
    differing: int = 0
    first: str = ""
    fields: list[Field] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)


def row_differences(a: list[Line] | None, b: list[Line] | None) -> RowDifferences:
    """Compare the rows of two tables; None stands for a table that does not exist."""
    if a is None or b is None:
        return RowDifferences(None if a is None else len(a), None if b is None else len(b))
    names = _key_columns(a, b)
    rows_a = {_key(line, names): line for line in a}
    rows_b = {_key(line, names): line for line in b}
    only_a = [key for key in rows_a if key not in rows_b]
    only_b = [key for key in rows_b if key not in rows_a]
    unequal: dict[Key, list[Field]] = {}
    for key, line in rows_a.items():
        if key in rows_b and line != rows_b[key]:
            unequal[key] = _fields(line, rows_b[key])

    first = next(iter([*only_a, *only_b]), ())
    if unequal:
        first = _most_telling(unequal)
    named = zip(names, first, strict=True) if first else ()
    return RowDifferences(
        a=len(a),
        b=len(b),
        only_a=len(only_a),
        only_b=len(only_b),
        differing=len(unequal),
        first=", ".join(f"{name} {value}" for name, value in named if value),
        fields=unequal.get(first, []),
        columns=_columns(unequal.values()),
    )


def _key_columns(a: Sequence[Line], b: Sequence[Line]) -> list[str]:
    """The columns that identify a row of two tables.

    A label that is the same in all rows of a table does not: two runs of one method each are
    compared row by row, whatever the method is called.
    """
    names = []
    for name in KEYS:
        is_present = any(name in line for line in (*a[:1], *b[:1]))
        is_same_label = name in LABELS and _is_constant(a, name) and _is_constant(b, name)
        if is_present and not is_same_label:
            names.append(name)
    return names


def _is_constant(lines: Sequence[Line], name: str) -> bool:
    """Whether a column has a single value in all lines."""
    return len({line.get(name) for line in lines}) <= 1


def _key(line: Line, names: Sequence[str]) -> Key:
    return tuple(line.get(name, "") for name in names)


def _fields(a: Line, b: Line) -> list[Field]:
    """The values of two rows that differ; one of a column that a table lacks is `none`."""
    fields = []
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            fields.append(Field(name, a.get(name, "none"), b.get(name, "none")))
    return fields


def _most_telling(unequal: dict[Key, list[Field]]) -> Key:
    """The first row in which more than a label differs, or else the first one."""
    for key, fields in unequal.items():
        if any(one.name not in LABELS for one in fields):
            return key
    return next(iter(unequal))


def _columns(rows: Iterable[list[Field]]) -> list[Column]:
    """How far every column differs, over the rows with different values."""
    by_name: dict[str, list[Field]] = {}
    for fields in rows:
        for one in fields:
            by_name.setdefault(one.name, []).append(one)

    columns = []
    for name, fields in by_name.items():
        pairs = [numbers for one in fields if (numbers := _numbers(one))]
        absolute = max((abs(x - y) for x, y in pairs), default=None)
        relative = max((abs(x - y) / max(abs(x), abs(y)) for x, y in pairs), default=None)
        columns.append(Column(name, len(fields), absolute, relative))
    return columns


def _numbers(one: Field) -> tuple[float, float] | None:
    """Both values as numbers, if they are finite and differ; else None."""
    try:
        x = float(one.a)
        y = float(one.b)
    except ValueError:
        return None
    if not math.isfinite(x - y) or x == y:
        return None
    return x, y
