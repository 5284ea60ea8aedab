"""Sheets of Excel workbooks as tables of texts: what the same table in a CSV file would hold.

openpyxl reads the values that are stored in the file. Nothing is computed, and no macro is run.
"""

import contextlib
import io
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO

from fedsim.errors import DataError, Failure, nearest
from fedsim.sources.cells import DECIDING_ROWS
from fedsim.sources.columns import Chunk
from fedsim.sources.delimited import CHUNK_ROWS
from fedsim.sources.faults import WHOLE_ROW, Faults
from fedsim.sources.workbook_parts import SheetCounts, address_of, counts_of, position_of
from fedsim.sources.zips import require_short_list, require_small

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # begins .xls files, and all that have a password
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the content of one with a password
ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")
NOT_AVAILABLE = "#N/A"  # how a sheet says that there is no value
WHOLE = 2**53  # up to which a whole number is exact
DAY = timedelta(days=1)
NOT_SOUND = "not a sound xlsx file"
INVALID_TOKEN = "(a byte that is not UTF-8, or a character that XML does not allow)"
SHOWN_SHEETS = 6

Row = tuple[Any, ...]  # the values of a row of a sheet, up to its last one


class Sheet:
    """A table in a sheet: the first row with values has the names of its columns.

    Args:
      title: the sheet's name.
      rows: opens the values of its rows, from the first on.
      counts: what was counted in it.
      others: the titles of the workbook's other sheets.

    Attributes:
      names: the names of the columns, in order.

    Raises:
      DataError: for merged cells in the table.
    """

    def __init__(
        self,
        title: str,
        rows: Callable[[], Iterator[Row]],
        counts: SheetCounts,
        others: Sequence[str] = (),
    ):
        self.title = title
        self.others = others
        self.rows = rows
        self.counts = counts
        self.header = 0  # the number of the first row with values
        self.names: list[str] = []
        self.columns: dict[int, int] = {}  # column of the sheet, from 1 -> position in `names`
        for number, row in enumerate(rows(), 1):
            if _has_values(row):
                self._read_header(number, row)
                break
        self._require_separate_cells()

    def chunks(self, faults: Faults, used: Collection[int]) -> Iterator[Chunk]:
        """Yield the rows below the header as texts, and their numbers, a chunk at a time.

        Rows without values are left out.

        Args:
          faults: collects what is wrong.
          used: positions of the columns that are read; the others are empty texts.
        """
        chunk: list[list[str]] = []
        numbers: list[int] = []
        size = DECIDING_ROWS
        for number, row in enumerate(self.rows(), 1):
            if number <= self.header or not self._has_row(number, row):
                continue
            chunk.append(self._texts(number, row, faults, used))
            numbers.append(number)
            if len(chunk) == size:
                yield chunk, numbers
                chunk = []
                numbers = []
                size = CHUNK_ROWS
        if chunk:
            yield chunk, numbers

    def about_others(self) -> str:
        """Which sheet is read, where there are others; else empty."""
        if not self.others:
            return ""
        others = _listed(self.others)
        return f"sheet {self.title!a} is read; to read another one of {others}, write sheet: NAME"

    def _read_header(self, number: int, row: Row) -> None:
        self.header = number
        for column, value in enumerate(row, 1):
            name = _text_of(value).strip()
            if name:
                self.columns[column] = len(self.names)
                self.names.append(name)

    def _require_separate_cells(self) -> None:
        """Refuse merged cells in the table: all but the first of them have no value."""
        first_column = min(self.columns, default=0)
        last_column = max(self.columns, default=0)
        for area in self.counts.merged:
            first, _, last = area.partition(":")
            _, left = position_of(first)
            bottom, right = position_of(last or first)
            if bottom >= self.header and left <= last_column and right >= first_column:
                remedy = "unmerge them, and write a value into each"
                raise DataError(f"sheet {self.title!a}: cells {area} are merged; {remedy}")

    def _has_row(self, number: int, row: Row) -> bool:
        """Whether a row has values, or formulas that should have some."""
        if _has_values(row):
            return True
        missing = self.counts.without_value
        return bool(missing) and any((number, column) in missing for column in self.columns)

    def _texts(self, number: int, row: Row, faults: Faults, used: Collection[int]) -> list[str]:
        """The cells of a row under the names of the header."""
        texts = [""] * len(self.names)
        for column, value in enumerate(row, 1):
            if value is None:
                continue
            text = _text_of(value)
            position = self.columns.get(column)
            if position is None:
                if text.strip():
                    problem = f"{address_of(number, column)} has a value, but no column name"
                    faults.add(number, WHOLE_ROW, f"{problem} above it in row {self.header}")
            elif position in used:
                if text in ERRORS:
                    problem = f"{address_of(number, column)} holds the error {text}"
                    faults.add_unreadable(number, position, f"{problem}; mend or empty the cell")
                else:
                    texts[position] = text
        if self.counts.without_value:
            self._add_missing_values(number, faults, used)
        return texts

    def _add_missing_values(self, number: int, faults: Faults, used: Collection[int]) -> None:
        """Add formulas of a row whose values were not stored."""
        for column, position in self.columns.items():
            if position in used and (number, column) in self.counts.without_value:
                problem = f"{address_of(number, column)} holds a formula without a stored value"
                remedy = "save the file in a spreadsheet program"
                fault = f"{problem}, and none is computed; {remedy}"
                faults.add_unreadable(number, position, fault)


@contextlib.contextmanager
def sheet_in(file: BinaryIO, sheet: int | str, warn: bool = True) -> Iterator[Sheet]:
    """Open a sheet of a workbook.

    Args:
      file: the workbook, opened for bytes.
      sheet: the sheet's name, or its number from 0.
      warn: whether a warning says that it holds formulas.

    Raises:
      DataError: for another file, or where openpyxl is missing.
    """
    openpyxl = _require_openpyxl()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl's, about what it leaves out
        with _sound():
            _require_workbook(file)
            with zipfile.ZipFile(file) as archive:
                counts_by_member = counts_of(archive)
            file.seek(0)
            workbook = openpyxl.load_workbook(
                file, read_only=True, data_only=True, keep_links=False
            )
            chosen = _chosen(workbook, sheet)
            chosen.reset_dimensions()  # those in the file may be wrong
        title = chosen.title[:40]
        counts = counts_by_member.get(chosen._worksheet_path)
        if counts is None:
            raise DataError(f"{NOT_SOUND}: {title!a} is no sheet of cells")

        def rows() -> Iterator[Row]:
            with _sound():
                yield from chosen.iter_rows(values_only=True)

        others = [sheet.title for sheet in workbook.worksheets if sheet.title != chosen.title]
        yield Sheet(title, rows, counts, others)
    if warn and counts.formulas:
        noun = "formula" if counts.formulas == 1 else "formulas"
        text = f"sheet {title!a} holds {counts.formulas:,} {noun}"
        values = "the values that were stored in the file are read, and nothing is computed"
        warnings.warn(f"{text}, the first in {counts.first_formula}: {values}", stacklevel=3)


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
    size = file.seek(0, io.SEEK_END)
    require_short_list(file, f"{NOT_SOUND}: lists thousands of members")
    if not zipfile.is_zipfile(file):
        raise DataError(f"{NOT_SOUND}: it is no zip archive, as every .xlsx file is")
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        unpacked = sum(member.file_size for member in archive.infolist())
    if "xl/workbook.bin" in names:
        raise DataError("is a binary workbook (.xlsb); save it as .xlsx, or as CSV")
    if "content.xml" in names:
        raise DataError("is an OpenDocument file; save it as .xlsx, or as CSV")
    require_small(size, unpacked)
    file.seek(0)


@contextlib.contextmanager
def _sound() -> Iterator[None]:
    """Turn the errors of openpyxl, zip and XML into one line."""
    try:
        yield
    except Failure:
        raise
    except Exception as error:  # a dozen kinds, of a file that a program did not write so
        cause = error.__cause__ or error
        reason = (str(cause).splitlines() or [""])[0] or type(cause).__name__
        reason = reason.replace("(invalid token)", INVALID_TOKEN)
        raise DataError(f"{NOT_SOUND}: {reason[:200]}") from None


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
