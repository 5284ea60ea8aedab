"""Tables as an Excel workbook: a sheet for each, the same bytes whenever it is written."""

import io
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pandas as pd

from fedsim.errors import DirectoryError

MAX_TITLE = 31  # characters of a sheet's name
MAX_ROWS = 1_048_576  # of a sheet, with its header
MAX_CHARACTERS = 32_767  # of a cell
FORBIDDEN = re.compile(r"[\[\]:*?/\\'\x00-\x1f]")  # characters in the name of a sheet
LONGEST_NUMBER = 2  # characters behind a title that is taken
NO_DATE = datetime(1980, 1, 1)  # the first one that a zip can have
SPARE_WIDTH = 2  # of a column, in characters

# Characters that XML does not have, and texts that look like an escape of one. Programs read
# _x001B_ as the character of that code.
ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def workbook(tables: Mapping[str, pd.DataFrame], remark: str = "") -> bytes:
    """Return tables as an Excel workbook.

    Numbers keep all their digits; NaN and missing values are empty cells, and infinite numbers the
    texts `inf` and `-inf`, since a sheet has neither. Texts stay texts, also those that begin with
    `=`. The file has no date of its own, so that equal tables give equal bytes.

    Raises:
      DirectoryError: for tables that do not fit into a sheet, and where openpyxl is missing.
    """
    try:
        from openpyxl import Workbook
    except ImportError:
        install = "pip install 'fedsim-jax[excel]', or pip install openpyxl"
        raise DirectoryError(f"xlsx needs openpyxl: {install}") from None

    for name, table in tables.items():
        _require_space(name, table)
    book = Workbook(write_only=True)
    for name, table in tables.items():
        # openpyxl adds a number to a title that is taken
        title = FORBIDDEN.sub("_", name)[: MAX_TITLE - LONGEST_NUMBER]
        _write(book.create_sheet(title), table)
    file = io.BytesIO()
    book.save(file)
    return _without_dates(file, remark)


def _require_space(name: str, table: pd.DataFrame) -> None:
    """Refuse a table that does not fit into a sheet."""
    problem = ""
    if len(table) >= MAX_ROWS:
        problem = f"{len(table):,} rows; a sheet has at most {MAX_ROWS:,}"
    longest = 0
    for row in _rows(table.select_dtypes(exclude="number")):
        for value in row:
            longest = max(longest, len(str(value)))
    if longest > MAX_CHARACTERS:
        problem = f"a text of {longest:,} characters; a cell has at most {MAX_CHARACTERS:,}"
    if problem:
        raise DirectoryError(f"{name}: {problem}; export it as csv or parquet")


def _write(sheet: Any, table: pd.DataFrame) -> None:
    """Write a table; its header stays visible when the sheet is scrolled."""
    from openpyxl.utils import get_column_letter

    sheet.freeze_panes = "A2"
    columns = [str(column) for column in table.columns]
    for number, column in enumerate(columns, 1):
        letter = get_column_letter(number)
        sheet.column_dimensions[letter].width = len(column) + SPARE_WIDTH
    sheet.append([_cell(sheet, column) for column in columns])
    for row in _rows(table):
        sheet.append([_cell(sheet, value) for value in row])


def _rows(table: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    values = [table.iloc[:, i].tolist() for i in range(table.shape[1])]
    return zip(*values, strict=True)


def _cell(sheet: Any, value: Any) -> Any:
    """A cell: a number, a truth value or a text; None where there is no value.

    openpyxl would round numbers to 16 digits, and take texts for formulas, errors and numbers; the
    type that is set afterwards counts.
    """
    from openpyxl.cell import WriteOnlyCell

    if value is None or value is pd.NA or value == "":
        return None
    if isinstance(value, bool):
        return value
    is_number = isinstance(value, int | float)
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        is_number = False
    text = str(value)
    if isinstance(value, float):
        text = repr(value)
    cell = WriteOnlyCell(sheet, value=ESCAPED.sub(_escape, text))
    cell.data_type = "n" if is_number else "s"
    return cell


def _escape(match: re.Match) -> str:
    return f"_x{ord(match[0]):04X}_"


def _without_dates(file: io.BytesIO, remark: str) -> bytes:
    """The workbook without the time at which it was made, in its properties and in the zip."""
    from openpyxl.packaging.core import DocumentProperties
    from openpyxl.xml.constants import ARC_CORE
    from openpyxl.xml.functions import tostring

    properties = DocumentProperties(
        creator="fedsim", description=remark or None, created=NO_DATE, modified=NO_DATE
    )
    result = io.BytesIO()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(result, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == ARC_CORE:
                content = tostring(properties.to_tree())
            member = zipfile.ZipInfo(name, NO_DATE.timetuple()[:6])
            copy.writestr(member, content, zipfile.ZIP_DEFLATED)
    return result.getvalue()
