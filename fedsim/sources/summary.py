"""The columns of a table, whether samples can be made of it or not: counts for each column."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.cells import (
    BLANK,
    Cells,
    Parser,
    decimal_comma_in,
    parse_comma_number,
    parse_date,
    parse_number,
    parser_of,
)
from fedsim.sources.dates import date_of
from fedsim.sources.delimited import (
    COMMA,
    HEAD_LINES,
    PARSERS,
    POINT,
    Dialect,
    delimiter_of,
    header_of,
    reader_of,
    rows_of,
    unchecked_lines,
    unpacked,
)
from fedsim.sources.faults import Faults
from fedsim.sources.files import opened
from fedsim.sources.names import is_sound, reason_of, shown
from fedsim.sources.workbook import cells_of, sheet_in

MAX_DISTINCT = 10_000  # different values of a column that are counted
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
    if kind not in ("csv", "parquet", "xlsx"):
        return None
    with opened(path) as file:
        if kind == "csv":
            return _of_text(file, Dialect(delimiter, decimal))
        if kind == "parquet":
            return _of_parquet(file)
        return _of_sheet(file, sheet)


def _of_text(file: BinaryIO, dialect: Dialect) -> Summary:
    """The columns of a table in text, as far as it can be read, whatever is wrong with it.

    Raises:
      DataError: for a file without a header.
    """
    problems: dict[str, str] = {}
    with unpacked(file, "surrogateescape") as (text, max_characters):
        lines = _lines_until_fault(unchecked_lines(text, max_characters), problems)
        head = list(itertools.islice(lines, HEAD_LINES))
        try:
            delimiter = delimiter_of(head, dialect, target="")
        except DataError as error:
            problems[WHOLE_ROWS] = error.lines[0]
            delimiter = ";" if dialect.decimal == COMMA else ","
        rows = reader_of(itertools.chain(head, lines), delimiter)
        faults = Faults("line", list(map(shown, header_of(rows))))
        try:
            cells, numbers = rows_of(rows, faults)
        except DataError as error:  # reading stopped after too many problems
            raise DataError(error.lines[-1]) from None
        return _summary(cells, numbers, faults, problems, PARSERS[dialect.decimal])


def _of_sheet(file: BinaryIO, sheet: int | str) -> Summary:
    """The columns of a sheet."""
    read = sheet_in(file, sheet, warn=False)
    faults = Faults("row", read.names)
    cells, numbers = cells_of(read, faults, range(len(read.names)))
    return _summary(cells, numbers, faults, {})._replace(note=read.about_others)


def _of_parquet(file: BinaryIO) -> Summary:
    """The columns of a Parquet file."""
    from fedsim.sources.arrow import parquet_in, require_pyarrow

    require_pyarrow("parquet")
    from fedsim.sources.arrow_columns import is_scalar, is_temporal
    from fedsim.sources.frame import feature

    problems = {}
    names = []
    days = []
    table = parquet_in(file)
    for name, kind in zip(map(str, table.column_names), table.schema.types, strict=True):
        if is_scalar(kind) or str(kind) == "null":
            days += [len(names)] if is_temporal(kind) else []
            names.append(name)
        else:
            title = f"column {name[:SHOWN_CHARACTERS]!a}"
            problems[name] = f"{title}: holds {kind}, neither numbers nor texts"
    frame = table.select(names).replace_schema_metadata(None).to_pandas()
    cells = [feature(frame.iloc[:, position]) for position in range(len(names))]
    return _summary(cells, range(len(frame)), Faults("row", names), problems, days=days)


def _summary(
    cells: Sequence[Cells],
    numbers: Sequence[int],
    faults: Faults,
    problems: dict[str, str],
    parse: Parser = parse_number,
    days: Sequence[int] = (),
) -> Summary:
    """The columns of a table.

    Args:
      cells: by column.
      numbers: the numbers of the lines or rows.
      faults: what is wrong with rows.
      problems: what is wrong so far, by column.
      parse: makes numbers of cells.
      days: the columns of dates.

    Raises:
      DataError: for a table without columns.
    """
    if not faults.names:
        raise DataError(EMPTY)
    columns = []
    problems |= faults.by_column()
    has_commas = False
    for position, name in enumerate(faults.names):
        of_column = cells[position]
        parser = parser_of(of_column, parse)
        if parser is None and decimal_comma_in(of_column) is not None:
            has_commas = True
            parser = parse_comma_number
        is_date = parser is parse_date or position in days
        values, others = _values(of_column, parser)
        kind = _kind(values, parser, is_date)
        blanks = len(of_column) - len(values) - others
        columns.append({"name": name, "type": kind, "blanks": blanks, **_range(values, kind)})

        title = f"column {name[:SHOWN_CHARACTERS]!a}"
        if fault := _unreadable(of_column, numbers):
            problems.setdefault(name, f"{faults.unit} {fault[0]}, {title}: {fault[1]}")
        elif others:
            noun = "dates" if is_date else "numbers"
            problems.setdefault(name, f"{title}: {others:,} cells are not {noun}, but most are")
    return Summary(columns, len(numbers), problems, has_commas)


def _values(cells: Cells, parser: Parser | None) -> tuple[Any, int]:
    """The values of a column without blanks, and how many cells are neither values nor blanks."""
    others = 0
    if not isinstance(cells, np.ndarray):
        texts = [cell for cell in map(str.strip, cells) if cell not in BLANK]
        if parser is None:
            return texts, 0
        parsed = [parser(cell) for cell in texts]
        others = parsed.count(None)
        cells = np.array([number for number in parsed if number is not None], np.float64)
    return cells[~np.isnan(cells)], others


def _kind(values: Any, parser: Parser | None, is_date: bool) -> str:
    """`whole numbers`, `numbers`, `dates`, `text`, or `blank`."""
    if not len(values):
        return "blank"
    if is_date:
        return "dates"
    if parser is None:
        return "text"
    with np.errstate(invalid="ignore"):  # infinite numbers are not whole
        return "whole numbers" if (values % 1 == 0).all() else "numbers"


def _range(values: Any, kind: str) -> dict[str, Any]:
    """How many values there are, and the smallest and the largest of them."""
    distinct = len(set(values) if isinstance(values, list) else np.unique(values))
    return {
        "distinct": min(distinct, MAX_DISTINCT),
        "distinct_at_least": distinct > MAX_DISTINCT,
        "least": _shown(min(values), kind) if len(values) else None,
        "most": _shown(max(values), kind) if len(values) else None,
    }


def _shown(end: Any, kind: str) -> Any:
    """The smallest or largest value as JSON represents it."""
    if isinstance(end, str):
        return shown(end[:SHOWN_CHARACTERS])
    if not math.isfinite(end):
        return str(end)
    if kind == "dates":
        return date_of(end)
    return int(end) if kind == "whole numbers" else float(end)


def _unreadable(cells: Cells, numbers: Sequence[int]) -> tuple[int, str] | None:
    """Line or row of the first cell that is not UTF-8, and the reason."""
    if isinstance(cells, np.ndarray):
        return None
    for number, cell in zip(numbers, cells, strict=True):
        if not cell.isascii() and not is_sound(cell):
            return number, f"not UTF-8 text: {reason_of(cell)}"
    return None


def _lines_until_fault(lines: Iterator[str], problems: dict[str, str]) -> Iterator[str]:
    """Yield lines up to one that cannot be read, which is added to the problems."""
    try:
        yield from lines
    except DataError as error:
        problems[WHOLE_ROWS] = error.lines[0]
