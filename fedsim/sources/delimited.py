"""Tables in delimited text, read by pandas: every cell as a text, by row and column."""

import csv
import io
from typing import Any, BinaryIO, NamedTuple

from fedsim.errors import DataError
from fedsim.sources.cells import Decimal
from fedsim.sources.files import sound, unpacked

HEAD_CHARACTERS = 1 << 14  # in which the delimiter is sniffed
DELIMITERS = ",;\t|"  # that `auto` knows, the most usual first
EMPTY = "empty: expected a header with column names"
SAVE = "save it as UTF-8"
ZIP = b"PK\x03\x04"  # how zip files begin, workbooks among them


class Dialect(NamedTuple):
    """How a table is written."""

    delimiter: str = "auto"  # the character between cells, `tab`, or `auto`
    decimal: Decimal = "."  # a point or a comma; it is never the delimiter


def table_in(file: BinaryIO, dialect: Dialect) -> Any:
    """Return a table in UTF-8, plain or gzipped, as a DataFrame of texts.

    Its index has the number of every row, as a spreadsheet counts: the header is row 1. Rows
    without any text are left out; cells that a short row lacks are empty. Errors name the line of
    a row that is too long.
    """
    return table_of(text_in(file), dialect)


def table_of(text: str, dialect: Dialect) -> Any:
    """Return the table in a text, as `table_in` does."""
    import pandas as pd

    delimiter = delimiter_of(text, dialect)
    try:
        with sound("table"):
            cells = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                header=None,
                dtype=str,
                na_filter=False,
                skipinitialspace=True,
                skip_blank_lines=False,
                engine="c",
            )
    except DataError:
        if not text.strip():
            raise DataError(EMPTY) from None
        raise
    return with_header(cells)


def with_header(cells: Any) -> Any:
    """Return a DataFrame of texts whose columns are called as its first row, row 1, says.

    Rows without any text are left out, and columns without name and text.
    """
    cells.index += 1
    has_text = cells != ""
    is_row = has_text.any(axis=1)
    rows = cells[is_row]
    if not len(rows):
        raise DataError(EMPTY)
    rows.columns = rows.iloc[0].str.strip()
    rows = rows.iloc[1:]
    has_text = has_text[is_row].iloc[1:].any().to_numpy()
    return rows.loc[:, (rows.columns != "") | has_text]


def text_in(file: BinaryIO) -> str:
    """Return the text of a file in UTF-8, plain or gzipped; errors name the first other line."""
    content = unpacked(file)
    if content.startswith(ZIP):
        raise DataError("is a workbook or another zip file, not text; write kind: xlsx, or npz")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise DataError(f"line {line}: not UTF-8 text: byte {byte:#x}; {SAVE}") from None


def delimiter_of(text: str, dialect: Dialect) -> str:
    """Return the character between cells; `auto`: what `csv.Sniffer` finds, else the usual one."""
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
    candidates = DELIMITERS.replace(decimal, "")
    try:
        return csv.Sniffer().sniff(text[:HEAD_CHARACTERS], candidates).delimiter
    except csv.Error:  # such as of a single column
        return candidates[0]
