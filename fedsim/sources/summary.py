"""What the columns of a table hold, whether samples can be made of it or not: a row of counts for each column."""

import contextlib
import csv as text
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.cells import (
    BLANK,
    Value,
    as_comma_number,
    as_date,
    as_number,
    decimal_comma_in,
    value_of,
)
from fedsim.sources.dates import date_of
from fedsim.sources.delimited import (
    COMMA,
    NUMBERS,
    POINT,
    SEEN,
    any_lines_of,
    chunks_of,
    delimiter_of,
    unpacked,
)
from fedsim.sources.faults import Faults
from fedsim.sources.files import opened
from fedsim.sources.names import is_sound, reason_of, shown

MOST_DISTINCT = (
    10_000  # values of a column that are told apart; of more it is said that there are more
)
MOST_HELD = 2_000_000  # of all columns together
MOST_CHARACTERS = 40  # of a text that is shown


class Summary(NamedTuple):
    """The columns of a table.

    Attributes:
      columns: for each its `name`, `type`, `blanks`, `distinct`, `distinct_at_least` (whether there may be more), and
        `least` and `most` (None where there is nothing).
      rows: how many were read.
      problems: name of a column, or nothing for whole rows -> a line.
      decimal_comma: whether some column has numbers with a decimal comma.
    """

    columns: list[dict[str, Any]]
    rows: int
    problems: dict[str, str]
    decimal_comma: bool = False


class Column:
    """The cells of a column, counted part by part in bounded memory.

    Args:
      name: of the column.
      most: different values that are told apart.
      number: what makes a number of a cell.
      dates: whether numbers are days since 1970.
    """

    def __init__(self, name: str, most: int, number: Value = as_number, dates: bool = False):
        self.name = name
        self.most = most
        self.number = number
        self.dates = dates
        self.value: Value | None = None
        self.decided = self.decimal_comma = False
        self.blanks = self.others = 0
        self.whole = True
        self.seen: set[Any] = set()
        self.ends: tuple[Any, Any] | None = None
        self.unreadable: tuple[int, str] | None = (
            None  # line and reason of the first cell that is not UTF-8
        )

    def read(self, cells: Sequence[str] | np.ndarray, numbers: Sequence[int]) -> None:
        """Count cells.

        Args:
          cells: texts, or an array of floats whose blanks are NaN.
          numbers: of the lines or rows that they stand in.
        """
        if isinstance(cells, np.ndarray):
            self._count_numbers(cells)
            return
        if not self.decided:
            self._decide(cells)
        if self.value is as_number:
            with contextlib.suppress(ValueError):  # most columns of numbers hold nothing else
                self._count_numbers(np.fromiter(map(float, cells), np.float64, len(cells)))
                return
        known = [cell for cell in (cell.strip() for cell in cells) if cell not in BLANK]
        self.blanks += len(cells) - len(known)
        self._note_unreadable(cells, numbers)
        if self.value is None:
            self._count_texts(known)
            return
        values = [self.value(cell) for cell in known]
        self.others += sum(value is None for value in values)
        self._count_numbers(np.array([value for value in values if value is not None], np.float64))

    def _decide(self, cells: Sequence[str]) -> None:
        """What the first cells are, as readers of samples see it; numbers with decimal commas are numbers here."""
        self.decided = True
        self.value = value_of(cells, self.number)
        if self.value is None and decimal_comma_in(cells):
            self.decimal_comma, self.value = True, as_comma_number
        self.dates = self.value is as_date

    def _count_numbers(self, values: np.ndarray) -> None:
        known = values[~np.isnan(values)]
        self.decided, self.value = True, self.value or self.number
        self.blanks += len(values) - len(known)
        if not len(known):
            return
        with np.errstate(invalid="ignore"):  # of what is infinite, which is no whole number
            self.whole = self.whole and bool((known % 1 == 0).all())
        self._extend(float(known.min()), float(known.max()))
        if len(self.seen) <= self.most:
            self.seen.update(np.unique(known)[: self.most + 1].tolist())

    def _count_texts(self, known: list[str]) -> None:
        if known:
            self._extend(min(known), max(known))
        if len(self.seen) <= self.most:
            self.seen.update(map(hash, known))

    def _extend(self, least: Any, most: Any) -> None:
        ends = self.ends or (least, most)
        self.ends = min(ends[0], least), max(ends[1], most)

    def _note_unreadable(self, cells: Sequence[str], numbers: Sequence[int]) -> None:
        if self.unreadable is not None:
            return
        for cell, number in zip(cells, numbers, strict=True):
            if not cell.isascii() and not is_sound(cell):
                self.unreadable = number, reason_of(cell) or ""
                return

    @property
    def kind(self) -> str:
        """`whole numbers`, `numbers`, `dates`, `text`, or `blank`."""
        if self.ends is None:
            return "blank"
        if self.dates:
            return "dates"
        if self.value is None:
            return "text"
        return "whole numbers" if self.whole else "numbers"

    def counted(self) -> dict[str, Any]:
        """The row of this column, as `Summary` describes it."""
        least, most = (None, None) if self.ends is None else map(self._shown, self.ends)
        return {
            "name": self.name,
            "type": self.kind,
            "blanks": self.blanks,
            "distinct": min(len(self.seen), self.most),
            "distinct_at_least": len(self.seen) > self.most,
            "least": least,
            "most": most,
        }

    def problem(self, unit: str) -> str | None:
        """What is wrong, in a line."""
        if self.unreadable is not None:
            number, reason = self.unreadable
            return (
                f"{unit} {number}, column {self.name[:MOST_CHARACTERS]!a}: not UTF-8 text: {reason}"
            )
        if self.others:
            noun = "dates" if self.dates else "numbers"
            return f"column {self.name[:MOST_CHARACTERS]!a}: {self.others:,} cells are no {noun}, and most are"
        return None

    def _shown(self, end: Any) -> Any:
        """The smallest or largest value as JSON holds it."""
        if isinstance(end, str):
            return shown(end[:MOST_CHARACTERS])
        if not math.isfinite(end):
            return str(end)
        if self.dates:
            return date_of(end)
        return int(end) if self.whole else end


def summary_of(
    kind: str, path: str, delimiter: str = "auto", decimal: str = POINT
) -> Summary | None:
    """The columns of a table in a file; None for data of other kinds.

    Args:
      kind: of the data set.
      path: of the file.
      delimiter: as `csv` takes it.
      decimal: as `csv` takes it.

    Raises:
      DataError: for a file without columns, or one that cannot be read at all.
    """
    if kind == "csv":
        with opened(path) as file:
            return of_text(file, delimiter, decimal)
    if kind == "parquet":
        return _of_parquet(Path(path))
    return None


def of_text(file: BinaryIO, delimiter: str, decimal: str) -> Summary:
    """The columns of a table in text, as far as it can be read, whatever is wrong with it.

    Raises:
      DataError: for a file without a header.
    """
    problems: dict[str, str] = {}
    with unpacked(file, "surrogateescape") as (source, most):
        lines = _lines_until_fault(any_lines_of(source, most), problems)
        first = list(itertools.islice(lines, SEEN))
        try:
            between = delimiter_of(first, delimiter, "", decimal)
        except DataError as error:
            problems[""] = error.lines[0]
            between = ";" if decimal == COMMA else ","
        rows = text.reader(
            itertools.chain(first, lines), delimiter=between, skipinitialspace=True, strict=True
        )
        header = _header(rows)
        faults = Faults("line", header)
        columns = [Column(name, _told_apart(header), NUMBERS[decimal]) for name in header]
        count = 0
        try:
            for chunk, numbers in chunks_of(rows, len(header), faults):
                count += len(chunk)
                for column, cells in zip(columns, zip(*chunk, strict=True), strict=True):
                    column.read(cells, numbers)
        except DataError as error:  # so many problems that nothing more is read
            problems.setdefault("", error.lines[-1])
    return _summary(columns, count, problems | faults.by_column(), "line")


def _told_apart(names: list[str]) -> int:
    """How many values of each column are told apart, so that many columns do not fill the memory."""
    return min(MOST_DISTINCT, MOST_HELD // max(len(names), 1))


def _lines_until_fault(lines: Any, problems: dict[str, str]) -> Any:
    """Lines up to one that cannot be read, which is a problem then."""
    try:
        yield from lines
    except DataError as error:
        problems[""] = error.lines[0]


def _header(rows: Any) -> list[str]:
    """Names of the columns.

    Raises:
      DataError: where there are none.
    """
    try:
        header = [name.strip() for name in next(rows, [])]
    except text.Error as error:
        raise DataError(f"line 1: {error}") from None
    if not header:
        raise DataError("empty: a header with column names is needed")
    return list(map(shown, header))


def _of_parquet(path: Path) -> Summary:
    """The columns of a Parquet file.

    Raises:
      DataError: for what is no sound file.
    """
    from fedsim.sources.arrow import batches, require_pyarrow, schema_of, sound

    pa = require_pyarrow("parquet")
    from fedsim.sources.arrow_columns import is_scalar, is_temporal, require_sound_texts
    from fedsim.sources.frame import feature

    schema = schema_of(path)
    names = [str(name) for name in schema.names]
    scalar = [
        name
        for name in names
        if is_scalar(schema.field(name).type) or pa.types.is_null(schema.field(name).type)
    ]
    problems = {
        name: f"column {name[:MOST_CHARACTERS]!a}: holds {schema.field(name).type}, neither numbers nor texts"
        for name in names
        if name not in scalar
    }
    columns = [
        Column(name, _told_apart(scalar), dates=is_temporal(schema.field(name).type))
        for name in scalar
    ]
    count = 0
    with sound("parquet file"):
        for batch in batches(path, scalar):
            require_sound_texts(pa.Table.from_batches([batch]))
            frame = batch.to_pandas()
            rows = range(count, count + len(frame))
            count += len(frame)
            for place, column in enumerate(columns):
                column.read(feature(frame.iloc[:, place]), rows)
    return _summary(columns, count, problems, "row")


def _summary(columns: list[Column], rows: int, problems: dict[str, str], unit: str) -> Summary:
    for column in columns:
        problem = column.problem(unit)
        if problem is not None:
            problems.setdefault(column.name, problem)
    comma = any(column.decimal_comma for column in columns)
    return Summary([column.counted() for column in columns], rows, problems, comma)
