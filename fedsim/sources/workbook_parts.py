"""The parts of an Excel workbook that may come from anybody, counted before openpyxl reads them.

A workbook is a zip of XML files. openpyxl holds its texts and formats in memory, fills gaps between
cells, and takes about 10 µs for an element, so that all of that is counted first, by one pass of
expat over every member. It also finds what openpyxl does not tell: which cells hold formulas, and
whether the program that saved them stored their values.
"""

import re
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple
from xml.parsers import expat

from fedsim.errors import DataError
from fedsim.limits import require_memory

MAX_MEMBERS = 10_000
MAX_CELLS = 5_000_000  # of a sheet, those that are missing in a row included; and its texts
MAX_ROWS = 1_048_576  # of a sheet, in every program
MAX_ELEMENTS = 4 * MAX_CELLS  # of a member
MAX_OTHERS = 500_000  # elements of a member that are neither cells nor plain texts
MAX_LISTED = 100_000  # merged ranges, and formulas without a value
CHUNK_BYTES = 1 << 20
MAX_CHUNKS = 4  # in which no element begins
TEXT_BYTES = 100  # of memory for a text, besides its characters
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/spreadsheetml/main"
REFERENCE = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})", re.ASCII)

Position = tuple[int, int]  # row and column of a cell, both from 1


class SheetCounts(NamedTuple):
    """What was found in a sheet.

    Attributes:
      formulas: the number of formulas that have a stored value.
      first_formula: the address of the first of them.
      without_value: the cells with a formula that have none.
      merged: the ranges of merged cells, such as `A1:B2`.
    """

    formulas: int
    first_formula: str
    without_value: frozenset[Position]
    merged: tuple[str, ...]


def counts_of(archive: zipfile.ZipFile) -> dict[str, SheetCounts]:
    """Return what was found in each sheet, by its member, where the workbook is small and plain.

    Args:
      archive: the workbook.

    Raises:
      DataError: for XML that declares entities, and for too many members, cells, texts or formats.
      TooLarge: for texts that do not fit into memory.
    """
    members = archive.infolist()
    names = {member.filename for member in members}
    if len(names) < len(members) or len(members) > MAX_MEMBERS:
        raise DataError("not a sound xlsx file: its members are too many, or have the same names")
    sheets = {}
    for member in members:
        part = _Part(member)
        part.count(archive)
        if part.is_sheet:
            sheets[member.filename] = part.sheet_counts()
    return sheets


def position_of(reference: str) -> Position:
    """Return row and column of a cell's address.

    >>> position_of("B3"), position_of("AA10")
    ((3, 2), (10, 27))

    Raises:
      DataError: for anything else.
    """
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise DataError(f"not a sound xlsx file: {reference[:40]!a} is not the address of a cell")
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return int(match[2]), column


def address_of(row: int, column: int) -> str:
    """Return the address of a cell.

    >>> address_of(3, 2), address_of(10, 27)
    ('B3', 'AA10')
    """
    letters = ""
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row}"


class _Part:
    """A member of the archive, which is counted while expat parses it.

    Args:
      member: the member.
    """

    def __init__(self, member: zipfile.ZipInfo):
        self.member = member
        self.elements = 0
        self.others = 0
        self.texts = 0
        self.cells = 0  # that are in the file
        self.filled_cells = 0  # with those that are missing in a row
        self.is_sheet = False
        self.is_in_formula = False

        self.row = 0
        self.cell: dict[str, str] | None = None  # attributes of the last cell
        self.reference = ""  # the last one in the row
        self.cells_since = 0  # cells of the row after it, which have none
        self.has_value = False
        self.formulas = 0
        self.first_formula = ""
        self.without_value: set[Position] = set()
        self.merged: list[str] = []
        self.parser: Any = expat.ParserCreate(namespace_separator=" ")

    def count(self, archive: zipfile.ZipFile) -> None:
        """Count elements until the end, or to where it is not XML: openpyxl gets no further."""
        self.parser.StartElementHandler = self._start_root
        self.parser.StartDoctypeDeclHandler = self._refuse_entities
        quiet_chunks = 0
        with archive.open(self.member) as source:
            while chunk := source.read(CHUNK_BYTES):
                elements = self.elements
                try:
                    self.parser.Parse(chunk)
                except expat.ExpatError:
                    return
                self._require_small()
                quiet_chunks = 0 if self.elements > elements else quiet_chunks + 1
                if quiet_chunks == MAX_CHUNKS:
                    size = MAX_CHUNKS * CHUNK_BYTES
                    raise DataError(f"{self._name()}: a text or tag of more than {size} bytes")
        self._end_row()
        self._require_small()

    def sheet_counts(self) -> SheetCounts:
        """Return what was found in a sheet."""
        return SheetCounts(
            formulas=self.formulas,
            first_formula=self.first_formula,
            without_value=frozenset(self.without_value),
            merged=tuple(self.merged),
        )

    def _start_root(self, name: str, attributes: dict[str, str]) -> None:
        """The first element says what the member is."""
        del attributes
        self.elements = 1
        if name.startswith(f"{STRICT} "):
            raise DataError("is a Strict Open XML workbook; save it as Excel Workbook (.xlsx)")
        handlers: dict[str, Callable[[str, dict[str, str]], None]] = {
            f"{MAIN} worksheet": self._start_in_sheet,
            f"{MAIN} sst": self._start_in_texts,
        }
        self.is_sheet = name == f"{MAIN} worksheet"
        self.parser.StartElementHandler = handlers.get(name, self._start_other)

    def _start_in_sheet(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if name == f"{MAIN} c":
            if self.is_in_formula:
                self._end_formula()
            self.cells += 1
            self.cell = attributes
            reference = attributes.get("r")
            if reference:
                self.reference = reference
                self.cells_since = 0
            else:
                self.cells_since += 1
        elif name == f"{MAIN} v":
            if self.is_in_formula:
                self._start_value_of_formula()
        elif name == f"{MAIN} row":
            self._end_row()
            self._start_row(attributes)
        elif name == f"{MAIN} f":
            self.is_in_formula = True
            self.has_value = False
        elif name not in (f"{MAIN} is", f"{MAIN} t"):
            self.others += 1
            if name == f"{MAIN} mergeCell":
                self.merged.append(attributes.get("ref", ""))

    def _start_in_texts(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if name == f"{MAIN} si":
            self.texts += 1
        elif name != f"{MAIN} t":
            self.others += 1

    def _start_other(self, name: str, attributes: dict[str, str]) -> None:
        del name, attributes
        self.elements += 1
        self.others += 1

    def _start_row(self, attributes: dict[str, str]) -> None:
        number = attributes.get("r", str(self.row + 1))
        row = int(number) if re.fullmatch("[0-9]{1,7}", number, re.ASCII) else 0
        if not self.row < row <= MAX_ROWS:
            problem = f"row {number[:20]!a} follows row {self.row}"
            rule = f"rows are numbered upwards, to {MAX_ROWS:,}"
            raise DataError(f"not a sound xlsx file: {self._name()}: {problem}; {rule}")
        self.row = row

    def _end_row(self) -> None:
        """Count the cells of the last row up to its last one, as openpyxl fills it."""
        if self.is_in_formula:
            self._end_formula()
        if self.cell is not None:
            self.filled_cells += self._position()[1]
        self.cell = None
        self.reference = ""
        self.cells_since = 0

    def _start_value_of_formula(self) -> None:
        """A value is there where it is a text, which may be empty, or where it has characters."""
        assert self.cell is not None
        self.has_value = self.cell.get("t") == "str"

        def note_characters(characters: str) -> None:
            del characters
            self.has_value = True

        self.parser.CharacterDataHandler = note_characters

    def _end_formula(self) -> None:
        self.is_in_formula = False
        self.parser.CharacterDataHandler = None
        if self.cell is None:
            return
        position = self._position()
        if not self.has_value:
            self.without_value.add(position)
            return
        self.formulas += 1
        self.first_formula = self.first_formula or address_of(*position)

    def _position(self) -> Position:
        """Row and column of the last cell."""
        if not self.reference:
            return self.row, self.cells_since
        row, column = position_of(self.reference)
        return row, column + self.cells_since

    def _require_small(self) -> None:
        """Refuse a member with more than may be read; checked after each chunk."""
        limits = (
            (self.cells, MAX_CELLS, "cells"),
            (self.filled_cells, MAX_CELLS, "cells, those that are missing in a row included"),
            (self.texts, MAX_CELLS, "texts"),
            (self.elements, MAX_ELEMENTS, "elements"),
            (self.others, MAX_OTHERS, "elements other than cells and plain texts"),
            (len(self.merged), MAX_LISTED, "merged ranges"),
            (len(self.without_value), MAX_LISTED, "formulas without a stored value"),
        )
        for count, most, noun in limits:
            if count > most:
                raise DataError(
                    f"{self._name()}: more than {most:,} {noun}; save the table as CSV or Parquet"
                )
        if self.texts:
            require_memory(texts=2 * self.member.file_size + TEXT_BYTES * self.texts)

    def _refuse_entities(self, *declaration: Any) -> None:
        del declaration
        raise DataError(f"{self._name()}: declares entities (DOCTYPE), which no workbook needs")

    def _name(self) -> str:
        return ascii(self.member.filename[:60])[1:-1]
