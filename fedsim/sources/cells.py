"""Cells of text -> numbers, categories, labels and ids, by fixed rules."""

import contextlib
import math
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.dates import as_days, days_of
from fedsim.sources.faults import Faults
from fedsim.sources.ids import BLANK as BLANK
from fedsim.sources.ids import sortable

DECIDING_ROWS = 1000  # the first rows, which decide whether a column holds numbers, dates or text
MAX_LABEL = 2**63 - 1  # of whole numbers
MAX_CATEGORIES = 100  # texts of a column that become features
WRITE_COMMA = "has a decimal comma; write decimal: ',', or decimals with a point"
WRITE_PLAIN = "has a comma between thousands, or a decimal one; write 1234, or decimal: ','"
NESTED = (list, tuple, dict, set, bytes, np.ndarray)
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
NO_DATE = (
    "not a date, but most cells of the column are; write 2024-05-01, or 2024-05-01T12:00+02:00"
)

Task = Literal["classification", "regression"] | None
Cells = list[str] | np.ndarray  # of a column: texts, or floats with NaN for blanks

# A stripped cell -> a number; NaN for a blank, None for other text.
Parser = Callable[[str], float | None]


class Feature(NamedTuple):
    """A feature column of a table.

    Attributes:
      kind: what it holds.
      values: numbers, or days since 1970-01-01 UTC, with NaN for blanks `[n]`; of text, objects
        with None for blanks.
    """

    kind: Literal["numbers", "dates", "text"]
    values: np.ndarray

    @property
    def blanks(self) -> np.ndarray:
        """Which cells have no value `[n]`."""
        if self.kind == "text":
            return np.array([text is None for text in self.values], bool)
        return np.isnan(self.values)


def parse_number(cell: str) -> float | None:
    """Return a stripped cell as a number; NaN for a blank, None for other text."""
    if cell in BLANK:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None


def parse_comma_number(cell: str) -> float | None:
    """Return a stripped cell as a number with a decimal comma.

    NaN for a blank, None for other text, and for numbers with a point.

    >>> parse_comma_number("1,5"), parse_comma_number("15"), parse_comma_number("1.500,5")
    (1.5, 15.0, None)
    """
    if cell in BLANK:
        return math.nan
    return None if "." in cell else parse_number(cell.replace(",", ".", 1))


def parse_date(cell: str) -> float | None:
    """Return a stripped cell as days since 1970-01-01 UTC; NaN for a blank, None for other text."""
    return math.nan if cell in BLANK else as_days(cell)


class Column(NamedTuple):
    """A column of a table.

    Attributes:
      cells: its cells, stripped.
      rows: the numbers of their rows.
      position: its position among all columns.
      faults: collects what is wrong.
      parse: makes numbers of cells, `parse_number` or `parse_comma_number`.
    """

    cells: Cells
    rows: Sequence[int]
    position: int
    faults: Faults
    parse: Parser = parse_number

    @property
    def texts(self) -> list[str]:
        """The cells of a column that holds texts."""
        assert isinstance(self.cells, list)
        return self.cells

    def add(self, row: int, fault: str) -> None:
        """Add a problem of a cell, counted from 0."""
        self.faults.add(self.rows[row], self.position, fault)

    def add_all(self, wrong: np.ndarray, fault: str) -> None:
        """Add a problem of each of the cells that are marked `[n]`."""
        for row in np.flatnonzero(wrong).tolist():
            self.add(row, fault)


def cells_of(column: Any) -> Cells:
    """Return the cells of a pandas Series as numbers, or as the texts that a file would have.

    Numbers and truth values are floats, timestamps and durations are days, both with NaN for
    blanks; anything else is text.

    Raises:
      DataError: for cells that are lists.
    """
    kind = column.dtype.kind
    if kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind == "M":
        return days_of(column.to_numpy("datetime64[us]"))
    if kind == "m":
        return days_of(column.to_numpy("timedelta64[us]"))
    return texts_of(column)


def texts_of(column: Any) -> list[str]:
    """Return the texts, stripped, that a file would have for a pandas Series.

    Raises:
      DataError: for cells that are lists.
    """
    if column.dtype == "str":
        return column.fillna("").str.strip().tolist()
    values = column.tolist()
    if any(isinstance(value, NESTED) for value in values):
        remedy = "expected text, or a column for each number"
        raise DataError(f"column {str(column.name)[:40]!a}: holds lists; {remedy}")
    blanks = column.isna().tolist()
    cells = zip(values, blanks, strict=True)
    return ["" if blank else _text_of(value).strip() for value, blank in cells]


def feature_of(column: Column) -> Feature:
    """Return a feature column.

    It holds numbers where at least half of its cells among the first 1,000 rows, not counting
    blanks, are numbers; else dates, where at least half of them are dates. Any other cell in such a
    column is a fault. All other columns hold text.
    """
    if isinstance(column.cells, np.ndarray):
        return Feature("numbers", column.cells)
    parser = parser_of(column.cells, column.parse)
    if parser is not None:
        kind = "dates" if parser is parse_date else "numbers"
        return Feature(kind, numbers_of(column, parser))
    _add_fault_of_commas(column)
    texts = [None if cell in BLANK else cell for cell in column.cells]
    return Feature("text", np.fromiter(texts, object, len(texts)))


def parsed(cells: Sequence[str], parser: Parser) -> tuple[np.ndarray, np.ndarray]:
    """Return cells as numbers `[n]`, NaN where they are not, and which are neither nor blank."""
    if parser is parse_number:
        with contextlib.suppress(ValueError):  # most columns of numbers hold nothing else
            return np.fromiter(map(float, cells), np.float64, len(cells)), np.zeros(
                len(cells), bool
            )
    values = [parser(cell) for cell in cells]
    return np.array(values, np.float64), np.array([value is None for value in values], bool)


def numbers_of(column: Column, parser: Parser) -> np.ndarray:
    """Return cells that should be numbers or dates as numbers `[n]`; others are faults."""
    values, wrong = parsed(column.texts, parser)
    for row in np.flatnonzero(wrong).tolist():
        cell = column.cells[row]
        reason = NO_DATE if parser is parse_date else f"not a number{_advice(cell, parser)}"
        column.add(row, f"{cell[:40]!a} is {reason}")
    return np.where(wrong, 0.0, values)  # so that they are not reported as blanks too


def parser_of(cells: Cells, parse: Parser = parse_number) -> Parser | None:
    """Return what makes numbers of a column's cells: `parse` or `parse_date`; None for text."""
    if isinstance(cells, np.ndarray) or _are_mostly(cells, parse):
        return parse
    return parse_date if _are_mostly(cells, parse_date) else None


def decimal_comma_in(cells: Cells) -> str | None:
    """Return a cell with a decimal comma from a column whose numbers are written that way.

    At least half of the first cells, not counting blanks, must be such numbers; None where they are
    not.
    """
    if isinstance(cells, np.ndarray) or not _are_mostly(cells, parse_comma_number):
        return None
    found = (cell for cell in _with_commas(cells) if parse_comma_number(cell) is not None)
    return next(found, None)


def parse_labels(column: Column, drop: bool, task: Task = None) -> np.ndarray:
    """The labels of a target column `[n]`.

    Whole numbers are classes, other numbers are regression targets, texts are names of classes.
    Next to blanks 1.0 is a whole number too, since pandas writes whole numbers there like that.

    Args:
      column: the column.
      drop: whether the rows of blanks are dropped later; until then, blanks are 0 or empty names.
      task: what the labels are instead.
    """
    cells = column.texts
    blank = are_blank(cells)
    if not drop:
        column.add_all(
            blank, "a sample without a label; write missing: drop to leave such rows out"
        )
    if not _are_mostly(cells, column.parse, among=len(cells)):
        _add_fault_of_commas(column)
        if task == "regression":
            fault = "texts, which are no numbers to predict; name another column, or remove task"
            column.faults.add_to_column(column.position, fault)
        return np.where(blank, "", np.array(cells))

    y, wrong = parsed(cells, column.parse)
    y[blank] = 0
    for row in np.flatnonzero(wrong).tolist():
        advice = _advice(cells[row], column.parse)
        column.add(row, f"{cells[row][:40]!a} is not a number, but most labels are{advice}")
    if wrong.any():
        return np.zeros(len(cells), np.int64)

    whole = np.isfinite(y) & (np.floor(y) == y)
    remedy = ""
    if task is None and (_are_integers(cells) or (blank.any() and whole.all())):
        task = "classification"
        remedy = "; task: regression predicts numbers"
    if task != "classification":
        wrong = ~np.isfinite(y)
        reason = " cannot be a target"
    else:
        wrong = ~whole | (y < 0) | (y > MAX_LABEL)
        reason = f": classes are 0, 1, 2, ...{remedy}"
    for row in np.flatnonzero(wrong).tolist():
        column.add(row, f"{cells[row]}{reason}")
    return y.astype(np.int64) if task == "classification" and not wrong.any() else y


def parse_ids(column: Column, noun: str = "client id", row: str = "sample") -> np.ndarray:
    """Client ids `[n]`, as `sortable` has them.

    Args:
      column: the column.
      noun: what a cell is, for faults.
      row: what a row is, for faults.
    """
    column.add_all(are_blank(column.texts), f"a {row} without a {noun}")
    return sortable(column.cells)


def are_blank(cells: Sequence[str]) -> np.ndarray:
    """Return which of the stripped cells are blank `[n]`."""
    return np.array([cell in BLANK for cell in cells], bool)


def _text_of(value: Any) -> str:
    if isinstance(value, bool | numbers.Integral):
        return str(value)
    return repr(float(value)) if isinstance(value, numbers.Real) else str(value)


def _add_fault_of_commas(column: Column) -> None:
    """Add the fault of a column of text whose cells are numbers with commas."""
    if column.parse is not parse_number or (found := decimal_comma_in(column.cells)) is None:
        return
    thousands = all(map(THOUSANDS.fullmatch, _with_commas(column.texts)))
    advice = WRITE_PLAIN if thousands else WRITE_COMMA
    column.faults.add_to_column(column.position, f"{found[:40]!a} {advice}")


def _with_commas(cells: Sequence[str]) -> list[str]:
    """The first cells with a comma."""
    return [cell for cell in cells[:DECIDING_ROWS] if "," in cell]


def _are_mostly(cells: Sequence[str], parser: Parser, among: int = DECIDING_ROWS) -> bool:
    """Whether at least half of the first cells that are not blank are numbers, or dates."""
    found = [parser(cell) is not None for cell in cells[:among] if cell not in BLANK]
    return 2 * sum(found) >= len(found)


def _are_integers(cells: Sequence[str]) -> bool:
    """Whether cells that are not blank are written as whole numbers of 64 bits."""
    with contextlib.suppress(ValueError):
        return all(abs(int(cell)) <= MAX_LABEL for cell in cells if cell not in BLANK)
    return False


def _advice(cell: str, parse: Parser) -> str:
    """What to do about a decimal comma among numbers with points, or the other way round."""
    if parse is parse_number and "," in cell and parse_comma_number(cell) is not None:
        return "; write decimals with a point"
    if parse is parse_comma_number and "." in cell and parse_number(cell) is not None:
        return "; write decimals with a comma, and no points between digits"
    return ""
