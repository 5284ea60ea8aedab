"""Tables in delimited text: every fault has a line and a column, and nothing fills the memory."""

import contextlib
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from fedsim.errors import DataError
from fedsim.sources.cells import DECIDING_ROWS, parse_comma_number, parse_number
from fedsim.sources.columns import Chunk
from fedsim.sources.faults import WHOLE_ROW, Faults
from fedsim.sources.files import GZIP, MAX_BYTES, MAX_RATIO, SMALL_BYTES
from fedsim.sources.names import reason_of

MAX_CHARACTERS = 4 << 20  # of a line
BLANK_LINES = 1000  # blank lines that any table may have
BLANK_SHARE = 10  # further blank lines for each other line
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}  # that `auto` recognises
HEAD_LINES = 100  # by which the delimiter is recognised
CHUNK_ROWS = 250  # read at a time, after the first DECIDING_ROWS
POINT = "."
COMMA = ","
PARSERS = {POINT: parse_number, COMMA: parse_comma_number}  # by the decimal separator
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
    with unpacked(file, "surrogateescape") as (source, max_characters):
        lines = lines_of(source, max_characters)
        head = list(itertools.islice(lines, HEAD_LINES))
        delimiter = delimiter_of(head, dialect, target)
        rows = csv.reader(
            itertools.chain(head, lines), delimiter=delimiter, skipinitialspace=True, strict=True
        )
        try:
            header = [name.strip() for name in next(rows, [])]
        except csv.Error as error:
            raise DataError(f"line {rows.line_num}: {error}") from None
        yield header, rows


@contextlib.contextmanager
def unpacked(file: BinaryIO, errors: str = "strict") -> Iterator[tuple[io.TextIOWrapper, int]]:
    """Open the text of a file, plain or gzipped -> (text, the most characters that it may have).

    Args:
      file: the file, opened for bytes.
      errors: how bytes that are not UTF-8 are decoded, as Python's codecs call it.
    """
    max_characters = MAX_BYTES
    begin = file.read(len(ZIP))
    if begin == ZIP:
        raise DataError("is a workbook or another zip file, not text; write kind: xlsx, or npz")
    packed = begin.startswith(GZIP)
    if packed:
        size = file.seek(0, io.SEEK_END)
        max_characters = min(max_characters, max(MAX_RATIO * size, SMALL_BYTES))
    file.seek(0)
    source: Any = gzip.GzipFile(fileobj=file) if packed else file
    with io.TextIOWrapper(source, encoding="utf-8-sig", errors=errors, newline="") as text:
        yield text, max_characters


def lines_of(text: io.TextIOWrapper, max_characters: int) -> Iterator[str]:
    """Yield lines of UTF-8, refusing lines, and texts, so long that they would fill the memory.

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
    blank = 0
    for number in itertools.count(1):
        try:
            line = text.readline(MAX_CHARACTERS + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text near line {number}: {error.reason}; {SAVE}") from None
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise DataError(f"not a sound gzip file near line {number}: {error}") from None

        read += len(line)
        if len(line) > MAX_CHARACTERS:
            raise DataError(
                f"line {number}: longer than {MAX_CHARACTERS} characters; "
                "put each sample on a line of its own"
            )
        if read > max_characters:
            raise DataError(
                f"line {number}: unpacks to more than {max_characters} bytes, "
                f"at most {MAX_RATIO}-fold"
            )
        if not line:
            return
        if not line.strip(" \r\n"):
            blank += 1
            if blank > BLANK_LINES + BLANK_SHARE * (number - blank):
                raise DataError(f"line {number}: {blank} lines are blank; remove them")
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

    candidates = [candidate for candidate in DELIMITERS if candidate != decimal]
    fits = {candidate: _fit(lines, candidate) for candidate in candidates}
    best = max(fits.values())
    fitting = [candidate for candidate in candidates if fits[candidate] == best]
    remedy = "write delimiter: and the character"
    if best.columns < 2 and lines and lines[0].strip().strip('"') != target:
        names = ", ".join(DELIMITERS[candidate] for candidate in candidates)
        header = lines[0].strip()[:40]
        raise DataError(f"delimiter: none of {names} splits {header!a}; {remedy}")
    if best.columns > 1 and len(fitting) > 1:
        names = " and ".join(DELIMITERS[candidate] for candidate in fitting)
        raise DataError(
            f"delimiter: {names} each split the header into {best.columns} columns; {remedy}"
        )
    return fitting[0]


class _Fit(NamedTuple):
    """How well a delimiter splits a table; the larger tuple fits better.

    Attributes:
      rows_agree: whether header and first row have equally many cells, more than one.
      columns: the number of cells of the header.
    """

    rows_agree: bool
    columns: int


def _fit(lines: list[str], delimiter: str) -> _Fit:
    rows = (row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row)
    widths = []
    # A cell without an end: this is not the delimiter, or the table is refused later.
    with contextlib.suppress(csv.Error):
        for row in itertools.islice(rows, 2):
            widths.append(len(row))
    columns = widths[0] if widths else 0
    rows_agree = len(widths) > 1 and widths[1] == columns > 1
    return _Fit(rows_agree, columns)


def chunks_of(rows: Any, width: int, faults: Faults) -> Iterator[Chunk]:
    """Yield rows and the numbers of their lines, a chunk at a time.

    Args:
      rows: a CSV reader.
      width: the number of cells in a row; rows of another width are faults.
      faults: collects what is wrong.
    """
    chunk: list[list[str]] = []
    line_numbers: list[int] = []
    size = DECIDING_ROWS
    try:
        for row in rows:
            if not row:  # an empty line
                continue
            if len(row) != width:
                text = f"{len(row)} cells, but the header names {width} columns"
                faults.add(rows.line_num, WHOLE_ROW, text)
                continue
            chunk.append(row)
            line_numbers.append(rows.line_num)
            if len(chunk) == size:
                yield chunk, line_numbers
                chunk = []
                line_numbers = []
                size = CHUNK_ROWS
    except csv.Error as error:  # nothing behind it can be read
        faults.add(rows.line_num, WHOLE_ROW, str(error))
    if chunk:
        yield chunk, line_numbers
