"""The differences of two tables, row by row and column by column."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
      name: the column's name.
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
      b: the number of rows of the second table.
      only_a: how many rows only the first table has.
      only_b: how many rows only the second table has.
      differing: how many rows both have, with different values.
      first: the first row that differs or that only one has; empty if the tables are equal.
      fields: the values of that row that differ.
      columns: how far every column differs.
    """

    a: int | None
    b: int | None
    only_a: int
    only_b: int
    differing: int
    first: str
    fields: list[Field]
    columns: list[Column]


class UnequalRow(NamedTuple):
    """A row that two tables have with different values."""

    key: Key
    a: Line
    b: Line

    @property
    def fields(self) -> list[Field]:
        """The values that differ; one of a column that a table lacks is `none`."""
        fields = []
        for name in dict.fromkeys([*self.a, *self.b]):
            if self.a.get(name) != self.b.get(name):
                fields.append(Field(name, self.a.get(name, "none"), self.b.get(name, "none")))
        return fields


def row_differences(a: list[Line] | None, b: list[Line] | None) -> RowDifferences:
    """Compare the rows of two tables; None stands for a table that does not exist."""
    if a is None or b is None:
        return _with_a_missing_table(a, b)
    names = _key_columns(a, b)
    rows_a = _by_key(a, names)
    rows_b = _by_key(b, names)
    only_a = [key for key in rows_a if key not in rows_b]
    only_b = [key for key in rows_b if key not in rows_a]
    unequal = []
    for key, line in rows_a.items():
        if key in rows_b and line != rows_b[key]:
            unequal.append(UnequalRow(key, line, rows_b[key]))

    first: Key = ()
    fields: list[Field] = []
    if unequal:
        row = _most_telling(unequal)
        first = row.key
        fields = row.fields
    elif only_a or only_b:
        first = [*only_a, *only_b][0]
    return RowDifferences(
        a=len(a),
        b=len(b),
        only_a=len(only_a),
        only_b=len(only_b),
        differing=len(unequal),
        first=_name_of(first, names),
        fields=fields,
        columns=_columns(unequal),
    )


def _with_a_missing_table(a: list[Line] | None, b: list[Line] | None) -> RowDifferences:
    """Only how many rows each table has, since there is nothing to compare."""
    return RowDifferences(
        a=None if a is None else len(a),
        b=None if b is None else len(b),
        only_a=0,
        only_b=0,
        differing=0,
        first="",
        fields=[],
        columns=[],
    )


def _key_columns(a: Sequence[Line], b: Sequence[Line]) -> list[str]:
    """The columns that identify a row of two tables.

    A label that is the same in all rows of a table does not: two runs of one method each are
    compared row by row, whatever the method is called.
    """
    present: set[str] = set()
    for line in (*a[:1], *b[:1]):
        present |= line.keys()

    names = []
    for name in KEYS:
        if name not in present:
            continue
        is_same_label = name in LABELS and _is_constant(a, name) and _is_constant(b, name)
        if not is_same_label:
            names.append(name)
    return names


def _is_constant(lines: Sequence[Line], name: str) -> bool:
    """Whether a column has a single value in all lines."""
    return len({line.get(name) for line in lines}) <= 1


def _by_key(lines: Sequence[Line], names: Sequence[str]) -> dict[Key, Line]:
    by_key: dict[Key, Line] = {}
    for line in lines:
        key = tuple(line.get(name, "") for name in names)
        by_key[key] = line
    return by_key


def _most_telling(rows: Sequence[UnequalRow]) -> UnequalRow:
    """The first row in which more than a label differs, or else the first one."""
    for row in rows:
        if any(field.name not in LABELS for field in row.fields):
            return row
    return rows[0]


def _name_of(key: Key, names: Sequence[str]) -> str:
    """A key in words, such as `seed 0, round 5`; the empty key is the empty text."""
    if not key:
        return ""
    pairs = zip(names, key, strict=True)
    return ", ".join(f"{name} {value}" for name, value in pairs if value)


def _columns(rows: Sequence[UnequalRow]) -> list[Column]:
    """How far every column differs, over the rows with different values."""
    by_name: dict[str, list[Field]] = {}
    for row in rows:
        for field in row.fields:
            by_name.setdefault(field.name, []).append(field)

    columns = []
    for name, fields in by_name.items():
        absolute = []
        relative = []
        for field in fields:
            numbers = _numbers(field)
            if numbers is not None:
                x, y = numbers
                absolute.append(abs(x - y))
                relative.append(abs(x - y) / max(abs(x), abs(y)))
        column = Column(
            name=name,
            rows=len(fields),
            absolute=max(absolute, default=None),
            relative=max(relative, default=None),
        )
        columns.append(column)
    return columns


def _numbers(field: Field) -> tuple[float, float] | None:
    """Both values as numbers, if they are finite and differ; else None."""
    try:
        x = float(field.a)
        y = float(field.b)
    except ValueError:
        return None
    if not math.isfinite(x - y) or x == y:
        return None
    return x, y
