"""Cells of text -> numbers, categories, labels and ids, by fixed rules."""

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedsim.sources.dates import as_days
from fedsim.sources.faults import WHOLE_COLUMN, Faults
from fedsim.sources.ids import BLANK as BLANK
from fedsim.sources.ids import sortable

DECIDING_ROWS = 1000  # the first rows, which decide whether a column holds numbers, dates or text
MAX_LABEL = 2**63 - 1  # of whole numbers
MAX_CATEGORIES = 100  # texts of a column that become features
WRITE_COMMA = "has a decimal comma; write decimal: ',', or decimals with a point"
WRITE_PLAIN = "has a comma between thousands, or a decimal one; write 1234, or decimal: ','"
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
NO_DATE = (
    "not a date, but most cells of the column are; write 2024-05-01, or 2024-05-01T12:00+02:00"
)

Task = Literal["classification", "regression"] | None
Cells = Sequence[str] | np.ndarray  # of a column: texts, or floats with NaN for blanks

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


def feature_of(
    cells: Cells,
    row_numbers: Sequence[int],
    column: int,
    faults: Faults,
    parse: Parser | None = None,
) -> Feature:
    """Return a feature column.

    It holds numbers where at least half of its cells among the first 1,000 rows, not counting
    blanks, are numbers; else dates, where at least half of them are dates. Any other cell in such a
    column is a fault. All other columns hold text.

    Args:
      cells: its cells.
      row_numbers: the numbers of their lines or rows.
      column: its position among all columns.
      faults: collects what is wrong.
      parse: makes numbers of cells, `parse_number` or `parse_comma_number`.
    """
    if isinstance(cells, np.ndarray):
        return Feature("numbers", cells)
    parse = parse or parse_number
    parser = parser_of(cells, parse)
    if parser is not None:
        kind = "dates" if parser is parse_date else "numbers"
        return Feature(kind, numbers_of(cells, row_numbers, column, faults, parser))
    if parse is parse_number:
        faults.add_to_column(column, fault_of_commas(cells))
    texts = [None if cell in BLANK else cell for cell in map(str.strip, cells)]
    return Feature("text", np.fromiter(texts, object, len(texts)))


def numbers_of(
    cells: Sequence[str], row_numbers: Sequence[int], column: int, faults: Faults, parser: Parser
) -> np.ndarray:
    """Return cells that should be numbers or dates as numbers `[n]`; others are faults.

    Args:
      cells: the texts.
      row_numbers: the numbers of their lines or rows.
      column: the column's position among all columns.
      faults: collects what is wrong.
      parser: makes numbers of cells.
    """
    if parser is parse_number:
        with contextlib.suppress(ValueError):  # most columns of numbers hold nothing else
            return np.fromiter(map(float, cells), np.float64, len(cells))
    values = [parser(cell.strip()) for cell in cells]
    for i, value in enumerate(values):
        if value is None:
            cell = cells[i].strip()
            reason = NO_DATE if parser is parse_date else f"not a number{_advice(cell, parser)}"
            faults.add(row_numbers[i], column, f"{cell[:40]!a} is {reason}")
            values[i] = 0.0  # so that it is not reported as a blank too
    return np.array(values, np.float64)


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


def parser_of(cells: Cells, parse: Parser = parse_number) -> Parser | None:
    """Return what makes numbers of a column's cells: `parse` or `parse_date`; None for text."""
    if isinstance(cells, np.ndarray):
        return parse
    first = _first_values(cells)
    if mostly_numbers(first, parse):
        return parse
    dates = sum(as_days(cell) is not None for cell in first)
    return parse_date if 2 * dates >= len(first) else None


def mostly_numbers(cells: Sequence[str], parse: Parser = parse_number) -> bool:
    """Return whether at least half of the stripped cells that are not blank are numbers."""
    parsed = [parse(cell) for cell in cells if cell not in BLANK]
    return 2 * sum(value is not None for value in parsed) >= len(parsed)


def decimal_comma_in(cells: Cells) -> str | None:
    """Return a cell with a decimal comma from a column whose numbers are written that way.

    At least half of the first cells, not counting blanks, must be such numbers; None where they are
    not.
    """
    if isinstance(cells, np.ndarray):
        return None
    first = _first_values(cells)
    if not mostly_numbers(first, parse_comma_number):
        return None
    for cell in first:
        if "," in cell and parse_comma_number(cell) is not None:
            return cell
    return None


def fault_of_commas(cells: Cells) -> str | None:
    """Return what is wrong with a column of text whose cells are numbers with commas."""
    comma_cell = decimal_comma_in(cells)
    if comma_cell is None:
        return None
    with_commas = [cell for cell in _first_values(list(cells)) if "," in cell]
    thousands = all(map(THOUSANDS.fullmatch, with_commas))
    return f"{comma_cell[:40]!a} {WRITE_PLAIN if thousands else WRITE_COMMA}"


def parse_labels(
    cells: Sequence[str],
    row_numbers: Sequence[int],
    column: int,
    faults: Faults,
    drop: bool,
    parse: Parser = parse_number,
    task: Task = None,
) -> np.ndarray:
    """The labels of a target column `[n]`.

    Whole numbers are classes, other numbers are regression targets, texts are names of classes.
    Next to blanks 1.0 is a whole number too, since pandas writes whole numbers there like that.

    Args:
      cells: the texts.
      row_numbers: the numbers of their lines or rows.
      column: the column's position among all columns.
      faults: collects what is wrong.
      drop: whether the rows of blanks are dropped later; until then, blanks are 0 or empty names.
      parse: makes numbers of cells, as in `Features`.
      task: what the labels are instead.
    """
    cells = [cell.strip() for cell in cells]
    if not drop:
        text = "a sample without a label; write missing: drop to leave such rows out"
        _add_faults_of_blanks(cells, row_numbers, column, faults, text)

    if not mostly_numbers(cells, parse):
        if parse is parse_number:
            faults.add_to_column(column, fault_of_commas(cells))
        if task == "regression":
            faults.add(WHOLE_COLUMN, column, "texts, which are no numbers to predict; remove task")
        return np.array(_fill_blanks(cells, ""))

    has_text = False
    for cell, row_number in zip(cells, row_numbers, strict=True):
        if parse(cell) is None:
            advice = _advice(cell, parse)
            fault = f"{cell[:40]!a} is not a number, but most labels are{advice}"
            faults.add(row_number, column, fault)
            has_text = True
    if has_text:
        return np.zeros(len(cells), np.int64)

    filled = _fill_blanks(cells, "0")
    y = np.array([parse(cell) for cell in filled], np.float64)
    whole = np.isfinite(y) & (np.floor(y) == y)
    beside_blanks = filled != cells
    remedy = ""
    if task is None and (all(map(_is_integer, filled)) or (beside_blanks and whole.all())):
        task = "classification"
        remedy = "; task: regression predicts numbers"
    if task != "classification":
        wrong = ~np.isfinite(y)
        reason = " cannot be a target"
    else:
        wrong = ~whole | (y < 0) | (y > MAX_LABEL)
        reason = f": classes are 0, 1, 2, ...{remedy}"
    for i in np.flatnonzero(wrong).tolist():
        faults.add(row_numbers[i], column, f"{filled[i]}{reason}")
    return y.astype(np.int64) if task == "classification" and not wrong.any() else y


def parse_ids(
    cells: Sequence[str],
    row_numbers: Sequence[int],
    column: int,
    faults: Faults,
    noun: str = "client id",
    row: str = "sample",
) -> np.ndarray:
    """Client ids `[n]`, as `sortable` has them.

    Args:
      cells: the texts.
      row_numbers: the numbers of their lines or rows.
      column: the column's position among all columns.
      faults: collects blanks.
      noun: what a cell is, for faults.
      row: what a row is, for faults.
    """
    cells = [cell.strip() for cell in cells]
    _add_faults_of_blanks(cells, row_numbers, column, faults, f"a {row} without a {noun}")
    return sortable(cells)


def _add_faults_of_blanks(
    cells: Sequence[str], row_numbers: Sequence[int], column: int, faults: Faults, fault: str
) -> None:
    """Add a fault for each of the stripped cells that is blank."""
    for cell, row_number in zip(cells, row_numbers, strict=True):
        if cell in BLANK:
            faults.add(row_number, column, fault)


def _is_integer(cell: str) -> bool:
    """Whether a cell is written as a whole number of 64 bits."""
    try:
        return abs(int(cell)) <= MAX_LABEL
    except ValueError:
        return False


def _fill_blanks(cells: Sequence[str], filler: str) -> list[str]:
    """The stripped cells, with another text for blanks."""
    return [filler if cell in BLANK else cell for cell in cells]


def _first_values(cells: Sequence[str]) -> list[str]:
    """The first cells of a column, stripped, without blanks."""
    stripped = (cell.strip() for cell in cells[:DECIDING_ROWS])
    return [cell for cell in stripped if cell not in BLANK]


def _advice(cell: str, parse: Parser) -> str:
    """What to do about a decimal comma among numbers with points, or the other way round."""
    if parse is parse_number and "," in cell and parse_comma_number(cell) is not None:
        return "; write decimals with a point"
    if parse is parse_comma_number and "." in cell and parse_number(cell) is not None:
        return "; write decimals with a comma, and no points between digits"
    return ""
