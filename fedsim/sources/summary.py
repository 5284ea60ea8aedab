"""The columns of a table, whether samples can be made of it or not: counts for each column."""

import contextlib
import csv
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.cells import (
    BLANK,
    Parser,
    decimal_comma_in,
    parse_comma_number,
    parse_date,
    parse_number,
    parser_of,
)
from fedsim.sources.columns import Chunk
from fedsim.sources.dates import date_of
from fedsim.sources.delimited import (
    COMMA,
    HEAD_LINES,
    PARSERS,
    POINT,
    Dialect,
    chunks_of,
    delimiter_of,
    unchecked_lines,
    unpacked,
)
from fedsim.sources.faults import Faults
from fedsim.sources.files import opened
from fedsim.sources.names import is_sound, reason_of, shown
from fedsim.sources.workbook import Sheet, sheet_in

MAX_DISTINCT = 10_000  # different values of a column that are counted
MAX_DISTINCT_IN_TABLE = 2_000_000  # of all columns together
SHOWN_CHARACTERS = 40  # of a text
EMPTY = "empty: expected a header with column names"
WHOLE_ROWS = ""  # the key of problems that concern whole rows


class Summary(NamedTuple):
    """The columns of a table.

    Attributes:
      columns: for each its `name`, `type`, `blanks`, `distinct`, `distinct_at_least` (whether there
        may be more), and `least` and `most` (None where there are no values).
      rows: the number of rows that were read.
      problems: name of a column, or an empty text for whole rows -> a line.
      decimal_comma: whether some column has numbers with a decimal comma.
      note: a sentence about the file; empty if there is nothing to say.
    """

    columns: list[dict[str, Any]]
    rows: int
    problems: dict[str, str]
    decimal_comma: bool = False
    note: str = ""


class Column:
    """The cells of a column, counted chunk by chunk in bounded memory.

    Args:
      name: the column's name.
      max_distinct: different values that are counted.
      parse: makes numbers of cells.
      dates: whether numbers are days since 1970.

    Attributes:
      parser: what makes a number of a cell: `parse`, or what the first cells suggest; None before
        cells were read, and for text.
      is_decided: whether `parser` was chosen.
      decimal_comma: whether numbers have a decimal comma, though they were expected with a point.
      blanks: the number of blank cells.
      others: the number of cells that are neither blank nor numbers, in a column of numbers.
      whole: whether all numbers are whole.
      distinct: different numbers, or hashes of texts; at most one more than are counted.
      ends: the smallest and the largest value.
      unreadable: line and reason of the first cell that is not UTF-8.
    """

    def __init__(
        self, name: str, max_distinct: int, parse: Parser = parse_number, dates: bool = False
    ):
        self.name = name
        self.max_distinct = max_distinct
        self.parse = parse
        self.dates = dates
        self.parser: Parser | None = None
        self.is_decided = False
        self.decimal_comma = False
        self.blanks = 0
        self.others = 0
        self.whole = True
        self.distinct: set[Any] = set()
        self.ends: tuple[Any, Any] | None = None
        self.unreadable: tuple[int, str] | None = None

    def read(self, cells: Sequence[str] | np.ndarray, row_numbers: Sequence[int]) -> None:
        """Count cells.

        Args:
          cells: texts, or an array of floats with NaN for blanks.
          row_numbers: the numbers of their lines or rows.
        """
        if isinstance(cells, np.ndarray):
            self._count_numbers(cells)
            return
        if not self.is_decided:
            self._decide(cells)
        if self.parser is parse_number:
            with contextlib.suppress(ValueError):  # most columns of numbers hold nothing else
                self._count_numbers(np.fromiter(map(float, cells), np.float64, len(cells)))
                return

        values = [cell for cell in (cell.strip() for cell in cells) if cell not in BLANK]
        self.blanks += len(cells) - len(values)
        self._note_unreadable(cells, row_numbers)
        if self.parser is None:
            self._count_texts(values)
            return
        parsed = [self.parser(cell) for cell in values]
        numbers = [number for number in parsed if number is not None]
        self.others += len(parsed) - len(numbers)
        self._count_numbers(np.array(numbers, np.float64))

    @property
    def kind(self) -> str:
        """`whole numbers`, `numbers`, `dates`, `text`, or `blank`."""
        if self.ends is None:
            return "blank"
        if self.dates:
            return "dates"
        if self.parser is None:
            return "text"
        return "whole numbers" if self.whole else "numbers"

    def counted(self) -> dict[str, Any]:
        """Return the row of this column, as `Summary` describes it."""
        return {
            "name": self.name,
            "type": self.kind,
            "blanks": self.blanks,
            "distinct": min(len(self.distinct), self.max_distinct),
            "distinct_at_least": len(self.distinct) > self.max_distinct,
            "least": None if self.ends is None else self._shown(self.ends[0]),
            "most": None if self.ends is None else self._shown(self.ends[1]),
        }

    def problem(self, unit: str) -> str | None:
        """Return what is wrong, in a line.

        Args:
          unit: what row numbers count, `line` or `row`.
        """
        column = f"column {self.name[:SHOWN_CHARACTERS]!a}"
        if self.unreadable is not None:
            number, reason = self.unreadable
            return f"{unit} {number}, {column}: not UTF-8 text: {reason}"
        if self.others:
            noun = "dates" if self.dates else "numbers"
            return f"{column}: {self.others:,} cells are not {noun}, but most are"
        return None

    def _decide(self, cells: Sequence[str]) -> None:
        """Choose the parser as readers of samples do, but accept decimal commas as numbers."""
        self.is_decided = True
        self.parser = parser_of(cells, self.parse)
        if self.parser is None and decimal_comma_in(cells) is not None:
            self.decimal_comma = True
            self.parser = parse_comma_number
        self.dates = self.parser is parse_date

    def _count_numbers(self, values: np.ndarray) -> None:
        """Count numbers, NaN for blanks."""
        numbers = values[~np.isnan(values)]
        self.is_decided = True
        self.parser = self.parser or self.parse
        self.blanks += len(values) - len(numbers)
        if not len(numbers):
            return
        with np.errstate(invalid="ignore"):  # infinite numbers are not whole
            self.whole = self.whole and bool((numbers % 1 == 0).all())
        self._extend(float(numbers.min()), float(numbers.max()))
        if len(self.distinct) <= self.max_distinct:
            self.distinct.update(np.unique(numbers)[: self.max_distinct + 1].tolist())

    def _count_texts(self, texts: list[str]) -> None:
        if texts:
            self._extend(min(texts), max(texts))
        if len(self.distinct) <= self.max_distinct:
            self.distinct.update(map(hash, texts))

    def _extend(self, smallest: Any, largest: Any) -> None:
        if self.ends is not None:
            smallest = min(self.ends[0], smallest)
            largest = max(self.ends[1], largest)
        self.ends = (smallest, largest)

    def _note_unreadable(self, cells: Sequence[str], row_numbers: Sequence[int]) -> None:
        if self.unreadable is not None:
            return
        for cell, number in zip(cells, row_numbers, strict=True):
            if not cell.isascii() and not is_sound(cell):
                self.unreadable = (number, reason_of(cell) or "")
                return

    def _shown(self, end: Any) -> Any:
        """The smallest or largest value as JSON represents it."""
        if isinstance(end, str):
            return shown(end[:SHOWN_CHARACTERS])
        if not math.isfinite(end):
            return str(end)
        if self.dates:
            return date_of(end)
        return int(end) if self.whole else end


def summary_of(
    kind: str, path: str, delimiter: str = "auto", decimal: str = POINT, sheet: int | str = 0
) -> Summary | None:
    """Return the columns of a table in a file; None for data of other kinds.

    Args:
      kind: the kind of the data set.
      path: the file.
      delimiter: the character between cells, as `csv` takes it.
      decimal: the decimal separator, as `csv` takes it.
      sheet: the sheet's name or number, as `xlsx` takes it.

    Raises:
      DataError: for a file without columns, or one that cannot be read at all.
    """
    if kind == "csv":
        with opened(path) as file:
            return _of_text(file, Dialect(delimiter, decimal))
    if kind == "parquet":
        return _of_parquet(Path(path))
    if kind == "xlsx":
        with opened(path) as file, sheet_in(file, sheet, warn=False) as table:
            return _of_sheet(table)
    return None


def _of_text(file: BinaryIO, dialect: Dialect) -> Summary:
    """The columns of a table in text, as far as it can be read, whatever is wrong with it.

    Raises:
      DataError: for a file without a header.
    """
    problems: dict[str, str] = {}
    with unpacked(file, "surrogateescape") as (source, max_characters):
        lines = _lines_until_fault(unchecked_lines(source, max_characters), problems)
        head = list(itertools.islice(lines, HEAD_LINES))
        try:
            delimiter = delimiter_of(head, dialect, target="")
        except DataError as error:
            problems[WHOLE_ROWS] = error.lines[0]
            delimiter = ";" if dialect.decimal == COMMA else ","
        rows = csv.reader(
            itertools.chain(head, lines), delimiter=delimiter, skipinitialspace=True, strict=True
        )
        header = _header(rows)
        faults = Faults("line", header)
        chunks = chunks_of(rows, len(header), faults)
        return _of_chunks(chunks, PARSERS[dialect.decimal], faults, problems)


def _of_sheet(table: Sheet) -> Summary:
    """The columns of a sheet.

    Raises:
      DataError: for a sheet without a header.
    """
    if not table.names:
        raise DataError(EMPTY)
    faults = Faults("row", table.names)
    used = set(range(len(table.names)))
    summary = _of_chunks(table.chunks(faults, used), parse_number, faults, {})
    return summary._replace(note=table.about_others())


def _of_chunks(
    chunks: Iterable[Chunk], parse: Parser, faults: Faults, problems: dict[str, str]
) -> Summary:
    """The columns of a table whose rows are texts.

    Args:
      chunks: the rows below the header.
      parse: makes numbers of cells.
      faults: collects what is wrong with rows.
      problems: what is wrong so far, by column.
    """
    max_distinct = _max_distinct(faults.names)
    columns = [Column(name, max_distinct, parse) for name in faults.names]
    count = 0
    try:
        for chunk, row_numbers in chunks:
            count += len(chunk)
            for column, cells in zip(columns, zip(*chunk, strict=True), strict=True):
                column.read(cells, row_numbers)
    except DataError as error:  # reading stopped after too many problems
        problems.setdefault(WHOLE_ROWS, error.lines[-1])
    return _summary(columns, count, problems | faults.by_column(), faults.unit)


def _lines_until_fault(lines: Iterator[str], problems: dict[str, str]) -> Iterator[str]:
    """Yield lines up to one that cannot be read, which is added to the problems."""
    try:
        yield from lines
    except DataError as error:
        problems[WHOLE_ROWS] = error.lines[0]


def _header(rows: Any) -> list[str]:
    """The names of the columns.

    Raises:
      DataError: where there are none.
    """
    try:
        header = [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise DataError(f"line 1: {error}") from None
    if not header:
        raise DataError(EMPTY)
    return list(map(shown, header))


def _of_parquet(path: Path) -> Summary:
    """The columns of a Parquet file.

    Raises:
      DataError: for an unsound file.
    """
    from fedsim.sources.arrow import batches, require_pyarrow, schema_of, sound

    pa = require_pyarrow("parquet")
    from fedsim.sources.arrow_columns import is_scalar, is_temporal, require_sound_texts
    from fedsim.sources.frame import feature

    schema = schema_of(path)
    types = {str(name): schema.field(name).type for name in schema.names}
    names = []
    problems = {}
    for name, column_type in types.items():
        if is_scalar(column_type) or pa.types.is_null(column_type):
            names.append(name)
        else:
            title = f"column {name[:SHOWN_CHARACTERS]!a}"
            problems[name] = f"{title}: holds {column_type}, neither numbers nor texts"

    max_distinct = _max_distinct(names)
    columns = [Column(name, max_distinct, dates=is_temporal(types[name])) for name in names]
    count = 0
    with sound("parquet file"):
        for batch in batches(path, names):
            require_sound_texts(pa.Table.from_batches([batch]))
            frame = batch.to_pandas()
            rows = range(count, count + len(frame))
            count += len(frame)
            for index, column in enumerate(columns):
                column.read(feature(frame.iloc[:, index]), rows)
    return _summary(columns, count, problems, "row")


def _max_distinct(names: Sequence[str]) -> int:
    """Values of each column that are counted, so that many columns do not fill the memory."""
    return min(MAX_DISTINCT, MAX_DISTINCT_IN_TABLE // max(len(names), 1))


def _summary(columns: list[Column], rows: int, problems: dict[str, str], unit: str) -> Summary:
    for column in columns:
        problem = column.problem(unit)
        if problem is not None:
            problems.setdefault(column.name, problem)
    return Summary(
        columns=[column.counted() for column in columns],
        rows=rows,
        problems=problems,
        decimal_comma=any(column.decimal_comma for column in columns),
    )
