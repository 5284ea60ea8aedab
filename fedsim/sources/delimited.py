"""Tables in delimited text: every fault has a line and a column.

The module `csv` splits the text, since `pandas.read_csv` fills rows that are too short without a
word, and knows no lines.
"""

import contextlib
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.cells import (
    DECIDING_ROWS,
    Cells,
    Parser,
    numbers_of,
    parse_comma_number,
    parse_number,
    parser_of,
)
from fedsim.sources.faults import WHOLE_ROW, Faults
from fedsim.sources.files import GZIP, MAX_BYTES, MAX_RATIO, SMALL_BYTES
from fedsim.sources.names import reason_of

MAX_CHARACTERS = 4 << 20  # of a line
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}  # that `auto` recognises
HEAD_LINES = 100  # by which the delimiter is recognised
POINT = "."
COMMA = ","
PARSERS: dict[str, Parser] = {POINT: parse_number, COMMA: parse_comma_number}  # by the separator
SAVE = "save the table as UTF-8"
ZIP = b"PK\x03\x04"  # how zip files begin, workbooks among them


class Dialect(NamedTuple):
    """How a table is written.

    Attributes:
      delimiter: the character between cells, `tab`, or `auto`.
      decimal: the decimal separator, a point or a comma; it is never the delimiter.
    """

    delimiter: str = "auto"
    decimal: str = POINT


class Rows(NamedTuple):
    """The rows below a header.

    Attributes:
      cells: by column, all of its texts, or numbers.
      lines: the number of the line that each row ends in.
    """

    cells: list[Any]
    lines: list[int]


@contextlib.contextmanager
def table_in(file: BinaryIO, dialect: Dialect, target: str) -> Iterator[tuple[list[str], Any]]:
    """Open a table in UTF-8, plain or gzipped -> (names of its columns, reader of its rows).

    Args:
      file: the file, opened for bytes.
      dialect: how the table is written.
      target: a column that it should have.

    Raises:
      DataError: naming lines.
    """
    require_memory(table=file.seek(0, io.SEEK_END))
    file.seek(0)
    with unpacked(file, "surrogateescape") as (text, max_characters):
        lines = lines_of(text, max_characters)
        head = list(itertools.islice(lines, HEAD_LINES))
        delimiter = delimiter_of(head, dialect, target)
        rows = reader_of(chain(head, lines), delimiter)
        yield header_of(rows), rows


def reader_of(lines: Iterator[str], delimiter: str) -> Any:
    """Return a reader of the rows of a table."""
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)


def header_of(rows: Any) -> list[str]:
    """Return the names of the columns, from the first row."""
    try:
        return [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise DataError(f"line {rows.line_num}: {error}") from None


def rows_of(
    rows: Any, faults: Faults, features: Collection[int] = (), parse: Parser = parse_number
) -> Rows:
    """Return the rows of a table.

    Args:
      rows: their reader.
      faults: collects rows that have other cells than the header, and cells that are no numbers.
      features: the columns of features; of those that hold numbers no text is kept.
      parse: makes numbers of cells.
    """
    width = len(faults.names)
    parts: list[list[Any]] = [[] for _ in range(width)]
    lines: list[int] = []
    numeric: set[int] = set()
    for columns, numbers in _chunks(rows, faults):
        if not lines:  # the first rows decide
            numeric = {column for column in features if parser_of(columns[column], parse) is parse}
        for column, cells in enumerate(columns):
            if column in numeric:
                cells = numbers_of(cells, numbers, column, faults, parse)
            parts[column].append(cells)
        lines += numbers
    joined: list[Cells] = []
    for column, of_column in enumerate(parts):
        is_numeric = column in numeric
        joined.append(np.concatenate(of_column) if is_numeric else [*chain(*of_column)])
    return Rows(joined, lines)


def _chunks(rows: Any, faults: Faults) -> Iterator[tuple[list[tuple[str, ...]], list[int]]]:
    """Yield rows, by column, and the numbers of their lines, a chunk at a time."""
    width = len(faults.names)
    kept: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in rows:
            if len(row) == width:
                kept.append(row)
                lines.append(rows.line_num)
            elif row:  # no empty line
                text = f"{len(row)} cells, but the header names {width} columns"
                faults.add(rows.line_num, WHOLE_ROW, text)
            if len(kept) == DECIDING_ROWS:
                yield list(zip(*kept, strict=True)), lines
                kept = []
                lines = []
    except csv.Error as error:  # nothing behind it can be read
        faults.add(rows.line_num, WHOLE_ROW, str(error))
    if kept:
        yield list(zip(*kept, strict=True)), lines


@contextlib.contextmanager
def unpacked(file: BinaryIO, errors: str = "strict") -> Iterator[tuple[io.TextIOWrapper, int]]:
    """Open the text of a file, plain or gzipped -> (text, the most characters that it may have).

    Args:
      file: the file, opened for bytes.
      errors: how bytes that are not UTF-8 are decoded, as Python's codecs call it.
    """
    begin = file.read(len(ZIP))
    if begin == ZIP:
        raise DataError("is a workbook or another zip file, not text; write kind: xlsx, or npz")
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    source: Any = file
    max_characters = MAX_BYTES
    if begin.startswith(GZIP):
        source = gzip.GzipFile(fileobj=file)
        max_characters = min(MAX_BYTES, max(MAX_RATIO * size, SMALL_BYTES))
    with io.TextIOWrapper(source, encoding="utf-8-sig", errors=errors, newline="") as text:
        yield text, max_characters


def lines_of(text: io.TextIOWrapper, max_characters: int) -> Iterator[str]:
    """Yield lines of UTF-8, refusing those that would fill the memory.

    Args:
      text: the text, whose bytes that are not UTF-8 were decoded as surrogates or raise an error.
      max_characters: characters that it may have.

    Raises:
      DataError: naming the line.
    """
    for number, line in enumerate(unchecked_lines(text, max_characters), 1):
        reason = None if line.isascii() else reason_of(line)
        if reason is not None:
            raise DataError(f"line {number}: not UTF-8 text: {reason}; {SAVE}")
        yield line


def unchecked_lines(text: io.TextIOWrapper, max_characters: int) -> Iterator[str]:
    """Yield lines as `lines_of` does, also those that are not UTF-8."""
    read = 0
    for number in itertools.count(1):
        try:
            line = text.readline(MAX_CHARACTERS + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text near line {number}: {error.reason}; {SAVE}") from None
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise DataError(f"not a sound gzip file near line {number}: {error}") from None
        if not line:
            return
        read += len(line)
        if len(line) > MAX_CHARACTERS:
            limit = f"longer than {MAX_CHARACTERS} characters"
            raise DataError(f"line {number}: {limit}; put each sample on a line of its own")
        if read > max_characters:
            limit = f"unpacks to more than {max_characters} bytes, at most {MAX_RATIO}-fold"
            raise DataError(f"line {number}: {limit}")
        yield line


def delimiter_of(lines: list[str], dialect: Dialect, target: str) -> str:
    """Return the character between cells.

    Args:
      lines: the first lines of the table.
      dialect: `auto` chooses the delimiter that splits header and first row into the most cells,
        equally many.
      target: a column that the table should have; a header that consists of it needs no delimiter.

    Raises:
      DataError: for a delimiter of several characters, for the decimal separator, and where no
        delimiter fits better than the others.
    """
    delimiter, decimal = dialect
    if delimiter == decimal:
        raise DataError(f"decimal: {decimal!a} is also the delimiter; change one of them")
    if delimiter == "tab":
        return "\t"
    if delimiter != "auto":
        if len(delimiter) != 1 or delimiter in '"\r\n':
            remedy = "write auto, tab, or the character"
            raise DataError(f"delimiter: {delimiter[:40]!a} is not one character; {remedy}")
        return delimiter

    fits = {candidate: _fit(lines, candidate) for candidate in DELIMITERS if candidate != decimal}
    best = max(fits.values())
    _, columns = best
    fitting = [candidate for candidate, fit in fits.items() if fit == best]
    remedy = "write delimiter: and the character"
    if columns < 2 and lines and lines[0].strip().strip('"') != target:
        names = ", ".join(DELIMITERS[candidate] for candidate in fits)
        header = lines[0].strip()[:40]
        raise DataError(f"delimiter: none of {names} splits {header!a}; {remedy}")
    if columns > 1 and len(fitting) > 1:
        names = " and ".join(DELIMITERS[candidate] for candidate in fitting)
        raise DataError(
            f"delimiter: {names} each split the header into {columns} columns; {remedy}"
        )
    return fitting[0]


def _fit(lines: list[str], delimiter: str) -> tuple[bool, int]:
    """How well a delimiter splits a table; the larger pair fits better.

    Returns:
      Whether header and first row have equally many cells, more than one; the cells of the header.
    """
    rows = (row for row in reader_of(iter(lines), delimiter) if row)
    widths = []
    # A cell without an end: this is not the delimiter, or the table is refused later.
    with contextlib.suppress(csv.Error):
        for row in itertools.islice(rows, 2):
            widths.append(len(row))
    columns = widths[0] if widths else 0
    return len(widths) > 1 and widths[1] == columns > 1, columns
