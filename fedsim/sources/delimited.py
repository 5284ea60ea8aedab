"""Text with delimiters as a table: read so that every fault has a line and a column, and nothing fills the memory."""

import contextlib
import csv as text
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import JUDGED, Features, Value, as_comma_number, as_number
from fedsim.sources.columns import Missing, Roles, arrays_of, roles
from fedsim.sources.faults import Faults
from fedsim.sources.files import MOST_BYTES, MOST_RATIO, SMALL_BYTES
from fedsim.sources.names import reason_of

MOST_CHARACTERS = 4 << 20  # of a line
BLANK_LINES, BLANK_SHARE = (
    1000,
    10,
)  # blank lines that there may be: so many, and for each other line so many
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}  # those that `auto` knows
SAVE = "save the table as UTF-8"
SEEN = 100  # lines by which the delimiter is told
POINT, COMMA = ".", ","
NUMBERS = {
    POINT: as_number,
    COMMA: as_comma_number,
}  # before the decimals of a number -> what reads it
CHUNK = 250  # rows that are read at a time, after the first JUDGED
GZIP = b"\x1f\x8b"


def of_text(
    file: BinaryIO,
    target: str,
    client: str | None,
    missing: Missing,
    drop: Sequence[str],
    delimiter: str,
    columns: Sequence[str] = (),
    decimal: str = POINT,
) -> Arrays:
    """The samples of a table in UTF-8 with a header, plain or gzipped.

    Args:
      file: opened for bytes.
      target: column of the labels.
      client: column of the ids; None: `client`, if there is such a column.
      missing: what happens to blanks.
      drop: columns that are left out.
      delimiter: a character, `tab` or `auto`.
      columns: that are kept for the partition, and are no features.
      decimal: what stands before the decimals of a number, a point or a comma.

    Raises:
      DataError: naming lines and columns.
    """
    with table_in(file, delimiter, target, decimal) as (header, rows):
        return _table(rows, roles(header, target, client, drop, columns), missing, NUMBERS[decimal])


@contextlib.contextmanager
def table_in(
    file: BinaryIO, delimiter: str, target: str, decimal: str = POINT
) -> Iterator[tuple[list[str], Any]]:
    """The names of a table's columns, and a reader of its rows.

    Args:
      file: opened for bytes.
      delimiter: a character, `tab` or `auto`.
      target: a column that it has.
      decimal: what stands before the decimals of a number, which is never the delimiter.

    Raises:
      DataError: naming lines.
    """
    with unpacked(file, "surrogateescape") as (source, most):
        lines = lines_of(source, most)
        first = list(itertools.islice(lines, SEEN))
        between = delimiter_of(first, delimiter, target, decimal)
        rows = text.reader(
            itertools.chain(first, lines), delimiter=between, skipinitialspace=True, strict=True
        )
        try:
            header = [name.strip() for name in next(rows, [])]
        except text.Error as error:
            raise DataError(f"line {rows.line_num}: {error}") from None
        yield header, rows


@contextlib.contextmanager
def unpacked(file: BinaryIO, errors: str = "strict") -> Iterator[tuple[io.TextIOWrapper, int]]:
    """The text of a file, plain or gzipped, and how many characters it may have.

    Args:
      file: opened for bytes.
      errors: what becomes of bytes that are not UTF-8, as Python's codecs call it.
    """
    most, packed = MOST_BYTES, file.read(2) == GZIP
    if packed:
        most = min(most, max(MOST_RATIO * file.seek(0, 2), SMALL_BYTES))
    file.seek(0)
    source: Any = gzip.GzipFile(fileobj=file) if packed else file
    with io.TextIOWrapper(source, encoding="utf-8-sig", errors=errors, newline="") as lines:
        yield lines, most


def lines_of(lines: io.TextIOWrapper, most: int) -> Iterator[str]:
    """Lines of text in UTF-8, none of them, and not all together, so long that they would fill the memory.

    Raises:
      DataError: naming the line.
    """
    for number, line in enumerate(any_lines_of(lines, most), 1):
        if not line.isascii() and (fault := reason_of(line)) is not None:
            raise DataError(f"line {number}: not UTF-8 text: {fault}; {SAVE}")
        yield line


def any_lines_of(lines: io.TextIOWrapper, most: int) -> Iterator[str]:
    """The same of any encoding: bytes that are not UTF-8 are left to whoever reads the lines."""
    read = 0
    blank = 0
    for number in itertools.count(1):
        try:
            line = lines.readline(MOST_CHARACTERS + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text near line {number}: {error.reason}; {SAVE}") from None
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise DataError(f"not a sound gzip file near line {number}: {error}") from None
        read += len(line)
        if len(line) > MOST_CHARACTERS:
            raise DataError(
                f"line {number}: longer than {MOST_CHARACTERS} characters; put a sample on each line"
            )
        if read > most:
            raise DataError(
                f"line {number}: unpacks to more than {most} bytes, at most {MOST_RATIO}-fold"
            )
        if not line:
            return
        if not line.strip(" \r\n"):
            blank += 1
            if blank > BLANK_LINES + BLANK_SHARE * (number - blank):
                raise DataError(f"line {number}: {blank} lines are blank; take them out")
        yield line


def delimiter_of(lines: list[str], delimiter: str, target: str, decimal: str = POINT) -> str:
    """The character between cells: as asked, or the one that cuts header and first row into the most cells, equally many.

    Raises:
      DataError: for more than a character, the one before decimals, or where none fits better than the others.
    """
    if delimiter == decimal:
        raise DataError(f"decimal: {decimal!a} is the delimiter as well; write another one of them")
    if delimiter != "auto":
        if delimiter != "tab" and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise DataError(
                f"delimiter: {delimiter[:40]!a} is not one character; write auto, tab, or the character"
            )
        return "\t" if delimiter == "tab" else delimiter
    widths = {between: _widths(lines, between) for between in DELIMITERS if between != decimal}
    best = max(widths.values())
    fitting = [between for between, width in widths.items() if width == best]
    remedy = "write delimiter: and the character"
    if best[1] < 2 and lines and lines[0].strip().strip('"') != target:
        known = ", ".join(DELIMITERS[between] for between in widths)
        raise DataError(f"delimiter: none of {known} cuts {lines[0].strip()[:40]!a}; {remedy}")
    if best[1] > 1 and len(fitting) > 1:
        names = " and ".join(DELIMITERS[between] for between in fitting)
        raise DataError(f"delimiter: {names} each cut the header into {best[1]} columns; {remedy}")
    return fitting[0]


def _widths(lines: list[str], between: str) -> tuple[bool, int]:
    """Whether header and first row have equally many cells, more than one, and how many the header has."""
    rows = (row for row in text.reader(lines, delimiter=between, skipinitialspace=True) if row)
    widths = []
    with contextlib.suppress(
        text.Error
    ):  # a cell without end: this is not the character, or the table is refused later
        for row in itertools.islice(rows, 2):
            widths.append(len(row))
    header = widths[0] if widths else 0
    return len(widths) > 1 and widths[1] == header > 1, header


def _table(rows: Any, places: Roles, missing: Missing, number: Value) -> Arrays:
    """The rows below the header, chunk after chunk."""
    faults = Faults("line", places.names)
    features = Features(places.features, faults, number)
    target: list[str] = []
    client: list[str] = []
    kept: list[list[str]] = [[] for _ in places.kept]
    for chunk, numbers in chunks_of(rows, len(places.names), faults):
        columns = list(zip(*chunk, strict=True))
        features.read([columns[place] for place in places.features], numbers)
        target += columns[places.target]
        client += columns[places.client] if places.client is not None else ()
        for cells, place in zip(kept, places.kept, strict=True):
            cells += columns[place]
    return arrays_of(places, features, target, client, kept, missing, faults)


def chunks_of(rows: Any, width: int, faults: Faults) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of the header's width, with their lines, some at a time; other rows are faults."""
    chunk: list[list[str]] = []
    numbers: list[int] = []
    size = JUDGED
    try:
        for row in rows:
            if not row:
                continue  # an empty line
            if len(row) != width:
                faults.add(rows.line_num, -1, f"{len(row)} cells, the header names {width} columns")
                continue
            chunk.append(row)
            numbers.append(rows.line_num)
            if len(chunk) == size:
                yield chunk, numbers
                chunk, numbers, size = [], [], CHUNK
    except text.Error as error:  # nothing behind it can be read
        faults.add(rows.line_num, -1, str(error))
    if chunk:
        yield chunk, numbers
