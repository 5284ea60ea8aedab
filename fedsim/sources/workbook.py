"""Sheets of Excel workbooks as tables of texts: what the same table in a CSV file would hold.

openpyxl reads the values that are stored in the file. Nothing is computed, and no macro is run.
"""

import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO, NamedTuple

from fedsim.errors import DataError, nearest
from fedsim.sources.delimited import Rows
from fedsim.sources.faults import WHOLE_ROW, Faults
from fedsim.sources.files import sound
from fedsim.sources.zips import require_small

MAX_CELLS = 5_000_000  # of a sheet, empty ones in front of others included
MAX_ROWS = 1_048_576  # of a sheet, in every program
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # begins .xls files, and all that have a password
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the content of one with a password
STRICT = b"http://purl.oclc.org/ooxml/spreadsheetml/main"
FORMULA = re.compile(rb"<f[ />]")
MERGED = re.compile(rb'<mergeCell [^>]*ref="([A-Z0-9:]+)"')
ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")
NOT_AVAILABLE = "#N/A"  # how a sheet says that there is no value
WHOLE = 2**53  # up to which a whole number is exact
DAY = timedelta(days=1)
SHOWN_SHEETS = 6

Row = tuple[Any, ...]  # the values of a row of a sheet, up to its last one


class Sheet(NamedTuple):
    """A table in a sheet: the first row with values has the names of its columns.

    Attributes:
      title: the sheet's name.
      columns: column of the sheet, from 1 -> its name.
      header: the number of the row with the names; 0: there is none.
      rows: the values of all rows, from the first on.
      without_value: row and column of the formulas whose value was not stored.
      about_others: a sentence about the workbook's other sheets; empty: there are none.
    """

    title: str
    columns: dict[int, str]
    header: int
    rows: list[Row]
    without_value: set[tuple[int, int]]
    about_others: str

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.columns.values())


def sheet_in(file: BinaryIO, sheet: int | str, warn: bool = True) -> Sheet:
    """Read a sheet of a workbook.

    Args:
      file: the workbook, opened for bytes.
      sheet: the sheet's name, or its number from 0.
      warn: whether a warning says that it holds formulas.

    Raises:
      DataError: for another file, for merged cells in the table, or where openpyxl is missing.
    """
    openpyxl = _require_openpyxl()
    with sound("xlsx file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl's, about what it leaves out
        _require_workbook(file)
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        chosen = _chosen(workbook, sheet)
        with zipfile.ZipFile(file) as archive:
            content = archive.read(chosen._worksheet_path)
        chosen.reset_dimensions()  # those in the file may be wrong
        rows = list(_counted(chosen.iter_rows(values_only=True)))
        formulas: list[tuple[int, int]] = []
        without_value: set[tuple[int, int]] = set()
        if FORMULA.search(content):
            formulas, without_value = _formulas(openpyxl, file, chosen)

    header = next((number for number, row in enumerate(rows, 1) if _has_values(row)), 0)
    columns = {}
    for column, value in enumerate(rows[header - 1] if header else (), 1):
        if name := _text_of(value).strip():
            columns[column] = name
    with sound("xlsx file"):
        for area in MERGED.findall(content):
            _require_outside(area.decode(), header, columns, chosen.title)
    if warn and formulas:
        noun = "formula" if len(formulas) == 1 else "formulas"
        text = f"sheet {chosen.title[:40]!a} holds {len(formulas):,} {noun}"
        first = _address(*formulas[0])
        values = "the values that were stored in the file are read, and nothing is computed"
        warnings.warn(f"{text}, the first in {first}: {values}", stacklevel=3)

    others = [sheet.title for sheet in workbook.worksheets if sheet.title != chosen.title]
    about_others = ""
    if others:
        remedy = f"to read another one of {_listed(others)}, write sheet: NAME"
        about_others = f"sheet {chosen.title!a} is read; {remedy}"
    return Sheet(chosen.title, columns, header, rows, without_value, about_others)


def cells_of(sheet: Sheet, faults: Faults, used: Collection[int]) -> Rows:
    """Return the rows below the header as texts; those without values are left out.

    Args:
      sheet: the sheet.
      faults: collects what is wrong.
      used: positions of the columns that are read; the others are empty texts.
    """
    kept: list[list[str]] = []
    numbers: list[int] = []
    for number, row in enumerate(sheet.rows[sheet.header :], sheet.header + 1):
        missing = [column for column in sheet.columns if (number, column) in sheet.without_value]
        if _has_values(row) or missing:
            kept.append(_texts(sheet, number, row, missing, faults, used))
            numbers.append(number)
    return Rows(list(zip(*kept, strict=True)) or [()] * len(sheet.columns), numbers)


def _texts(
    sheet: Sheet,
    number: int,
    row: Row,
    missing: Sequence[int],
    faults: Faults,
    used: Collection[int],
) -> list[str]:
    """The cells of a row under the names of the header.

    Args:
      sheet: the sheet.
      number: the number of the row.
      row: its values.
      missing: the columns of its formulas without a value.
      faults: collects what is wrong.
      used: positions of the columns that are read.
    """
    texts = [_text_of(value) for value in row]
    texts += [""] * (max(sheet.columns) - len(texts))
    for column, text in enumerate(texts, 1):
        if column not in sheet.columns and text.strip():
            problem = f"{_address(number, column)} has a value, but no column name"
            faults.add(number, WHOLE_ROW, f"{problem} above it in row {sheet.header}")

    cells = [""] * len(sheet.columns)
    for position, column in enumerate(sheet.columns):
        if position not in used:
            continue
        text = texts[column - 1]
        if text in ERRORS:
            problem = f"{_address(number, column)} holds the error {text}"
            faults.add_unreadable(number, position, f"{problem}; mend or empty the cell")
        elif column in missing:
            problem = f"{_address(number, column)} holds a formula without a stored value"
            remedy = "and none is computed; save the file in a spreadsheet program"
            faults.add_unreadable(number, position, f"{problem}, {remedy}")
        else:
            cells[position] = text
    return cells


def _counted(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows, as many as a sheet may have."""
    cells = 0
    for number, row in enumerate(rows, 1):
        cells += len(row)
        if cells > MAX_CELLS or number > MAX_ROWS:
            limit = f"more than {MAX_CELLS:,} cells, or {MAX_ROWS:,} rows"
            raise DataError(f"{limit}; save the table as CSV or Parquet")
        yield row


def _formulas(
    openpyxl: Any, file: BinaryIO, sheet: Any
) -> tuple[list[tuple[int, int]], set[tuple[int, int]]]:
    """Row and column of the formulas that have a stored value, and of those that have none."""
    workbook = openpyxl.load_workbook(file, read_only=True, keep_links=False)
    written = workbook[sheet.title]
    written.reset_dimensions()
    with_value = []
    without = set()
    for formulas, values in zip(written.iter_rows(), sheet.iter_rows(), strict=True):
        for cell, stored in zip(formulas, values, strict=False):
            if cell.data_type != "f":
                continue
            # A stored text may be empty.
            if stored.value is None and stored.data_type != "str":
                without.add((cell.row, cell.column))
            else:
                with_value.append((cell.row, cell.column))
    return with_value, without


def _require_outside(area: str, header: int, columns: dict[int, str], title: str) -> None:
    """Refuse merged cells in the table: all but the first of them have no value."""
    from openpyxl.worksheet.cell_range import CellRange

    merged = CellRange(area)
    left, right, bottom = merged.min_col, merged.max_col, merged.max_row
    if bottom >= header and left <= max(columns, default=0) and right >= min(columns, default=0):
        remedy = "unmerge them, and write a value into each"
        raise DataError(f"sheet {title!a}: cells {area} are merged; {remedy}")


def _address(row: int, column: int) -> str:
    """The address of a cell, such as `B3`."""
    from openpyxl.utils import get_column_letter

    return f"{get_column_letter(column)}{row}"


def _require_openpyxl() -> Any:
    """The package openpyxl.

    Raises:
      DataError: where it is not installed.
    """
    try:
        import openpyxl
    except ImportError:
        install = "pip install 'fedsim-jax[excel]', or pip install openpyxl"
        raise DataError(f"xlsx needs openpyxl: {install}") from None
    return openpyxl


def _require_workbook(file: BinaryIO) -> None:
    """Refuse workbooks of other formats, by how they begin."""
    if file.read(len(OLE)) == OLE:
        if ENCRYPTED in file.read():
            raise DataError("has a password; save a copy without one")
        raise DataError("is an Excel 97-2003 workbook (.xls); save it as .xlsx, or as CSV")
    file.seek(0)
    if not zipfile.is_zipfile(file):
        raise DataError("not a sound xlsx file: it is no zip archive, as every .xlsx file is")
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if "xl/workbook.bin" in names:
            raise DataError("is a binary workbook (.xlsb); save it as .xlsx, or as CSV")
        if "content.xml" in names:
            raise DataError("is an OpenDocument file; save it as .xlsx, or as CSV")
        members = archive.infolist()
        packed = sum(member.compress_size for member in members)
        require_small(packed, sum(member.file_size for member in members))
        if "xl/workbook.xml" in names and STRICT in archive.read("xl/workbook.xml"):
            raise DataError("is a Strict Open XML workbook; save it as Excel Workbook (.xlsx)")


def _chosen(workbook: Any, sheet: int | str) -> Any:
    """The sheet of a name or a number.

    Raises:
      DataError: naming the sheets that there are.
    """
    sheets = workbook.worksheets
    titles = [sheet.title for sheet in sheets]
    if not titles:
        raise DataError("has no sheet with cells")
    listed = _listed(titles)
    if isinstance(sheet, int):
        if sheet >= len(sheets):
            raise DataError(f"sheet: no number {sheet}, counted from 0; there are {listed}")
        return sheets[sheet]
    if sheet not in titles:
        match = nearest(sheet, titles, 0.6)
        remedy = f"did you mean {match!a}?" if match else f"there are {listed}"
        raise DataError(f"sheet: none is called {sheet[:40]!a}; {remedy}")
    return sheets[titles.index(sheet)]


def _listed(titles: Sequence[str]) -> str:
    listed = ", ".join(ascii(title[:40]) for title in titles[:SHOWN_SHEETS])
    if len(titles) > SHOWN_SHEETS:
        listed += f" and {len(titles) - SHOWN_SHEETS} more"
    return listed


def _has_values(row: Row) -> bool:
    return any(value is not None and str(value).strip() for value in row)


def _text_of(value: Any) -> str:
    """A value as the text that a CSV file would have.

    A sheet does not distinguish 1 from 1.0. Durations and times of the day are days, as they are
    stored.

    >>> _text_of(2.0), _text_of(0.5), _text_of(True), _text_of(datetime(2024, 5, 1))
    ('2', '0.5', 'TRUE', '2024-05-01')
    """
    if value is None or value == NOT_AVAILABLE:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) < WHOLE
        return str(int(value)) if is_whole else repr(value)
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("T00:00:00")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        value = datetime.combine(date.min, value) - datetime.combine(date.min, time.min)
    if isinstance(value, timedelta):
        return repr(value / DAY)
    return str(value)
