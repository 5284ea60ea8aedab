"""Sheets of Excel workbooks as tables of texts: what the same table in a CSV file would hold.

openpyxl reads the values that are stored in the file. Nothing is computed, and no macro is run.
"""

import itertools
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO

from fedsim.errors import DataError, nearest
from fedsim.sources.delimited import with_header
from fedsim.sources.faults import MAX_LISTED
from fedsim.sources.files import sound
from fedsim.sources.packages import required
from fedsim.sources.zips import require_small

MAX_CELLS = 5_000_000  # of a sheet, empty ones in front of others included
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # begins .xls files, and all that have a password
ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")
NOT_AVAILABLE = "#N/A"  # how a sheet says that there is no value
WHOLE = 2**53  # up to which a whole number is exact
DAY = timedelta(days=1)
SHOWN_SHEETS = 6

Row = tuple[Any, ...]  # the values of a row of a sheet, up to its last one


def sheet_in(file: BinaryIO, sheet: int | str) -> tuple[Any, str]:
    """Read a sheet of a workbook, by its name or its number from 0.

    It is a DataFrame of texts, as `table_in` has it: the first row with values has the names of the
    columns. A sentence about the workbook's other sheets comes with it; empty: there are none.
    """
    import pandas as pd

    openpyxl = required("openpyxl", "xlsx", "excel")
    if file.read(len(OLE)) == OLE:
        raise DataError("has a password, or is an .xls; save it as .xlsx without one, or as CSV")
    with sound("xlsx file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl's, about what it leaves out
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            packed = sum(member.compress_size for member in members)
            require_small(packed, sum(member.file_size for member in members))
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        chosen = _chosen(workbook, sheet)
        chosen.reset_dimensions()  # those in the file may be wrong
        rows = [list(map(_text_of, row)) for row in _counted(chosen.iter_rows(values_only=True))]

    columns = itertools.zip_longest(*rows, fillvalue="")
    cells = pd.DataFrame(dict(enumerate(columns)), dtype=str)
    others = [title for title in workbook.sheetnames if title != chosen.title]
    about_others = ""
    if others:
        remedy = f"to read another one of {_listed(others)}, write sheet: NAME"
        about_others = f"sheet {chosen.title!a} is read; {remedy}"
    return with_header(cells), about_others


def require_no_errors(frame: Any) -> None:
    """Refuse a table with cells that hold errors."""
    lines = []
    for position, column in enumerate(frame.columns):
        cells = frame.iloc[:, position]
        for row, error in cells[cells.isin(ERRORS)].items():
            problem = f"holds the error {error}; mend or empty the cell"
            lines.append(f"row {row}, column {column[:40]!a}: {problem}")
    if lines:
        raise DataError(*lines[:MAX_LISTED])


def _counted(rows: Iterator[Row]) -> Iterator[Row]:
    cells = 0
    for row in rows:
        cells += 1 + len(row)
        if cells > MAX_CELLS:
            raise DataError(f"more than {MAX_CELLS:,} cells; save the table as CSV or Parquet")
        yield row


def _chosen(workbook: Any, sheet: int | str) -> Any:
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
    return str(value).strip()
