"""Cells of text -> numbers, categories, labels and ids, by stated rules."""

import contextlib
import itertools
import math
from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fedsim.sources.dates import as_days
from fedsim.sources.faults import Faults

BLANK = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"))  # cells without a value
JUDGED = 1000  # rows that decide whether a column holds numbers, dates or text
MOST_CATEGORIES = 100  # texts of a column that become features
WRITE_COMMA = "has a decimal comma; write decimal: ',', or decimals with a point"
NO_DATE = "no date, and most of its column are; write 2024-05-01, or 2024-05-01T12:00+02:00"
Value = Callable[
    [str], float | None
]  # a stripped cell as a number; NaN for a blank, None for other text


class Features:
    """The feature columns of a table, read chunk after chunk.

    A column holds numbers where at least half of its cells among the first 1,000 rows, blanks aside, are numbers; dates,
    where at least half of them are dates; what is none there is a fault. Dates become days since 1970-01-01 UTC. Any other
    column holds text, and its cells are kept as the place of their text in `texts`.

    Args:
      places: of these columns among all columns of the table.
      faults: collects what is wrong.
      number: what makes a number of a cell, `as_number` or `as_comma_number`.
    """

    def __init__(self, places: Sequence[int], faults: Faults, number: "Value | None" = None):
        self.places, self.faults = places, faults
        self.number = number or as_number
        self.texts: list[dict[str, int] | None] = []  # by column; None: numbers or dates
        self.values: list[
            Value | None
        ] = []  # by column: what makes a number of a cell; None: texts
        self.cells = array("d")  # [n, columns], row after row; NaN: blank
        self.numbers = array("q")  # of lines or rows

    def read(self, columns: Sequence[Sequence[str] | np.ndarray], numbers: Sequence[int]) -> None:
        """Append rows.

        Args:
          columns: cells by column, texts or an array of floats.
          numbers: of the rows, as faults name them.
        """
        if not self.texts:
            self.values = [value_of(cells, self.number) for cells in columns]
            self.texts = [{} if value is None else None for value in self.values]
            self._refuse_decimal_commas(columns)
        block = np.empty((len(numbers), len(columns)))
        for j, (cells, value, texts) in enumerate(
            zip(columns, self.values, self.texts, strict=True)
        ):
            if isinstance(cells, np.ndarray):
                block[:, j] = cells
            elif value is not None:
                block[:, j] = self._numbers(j, cells, numbers, value)
            elif texts is not None:
                block[:, j] = [_code(cell.strip(), texts) for cell in cells]
        self.cells.frombytes(block.data.cast("B"))
        self.numbers.extend(numbers)

    def _numbers(
        self, j: int, cells: Sequence[str], numbers: Sequence[int], value: Value
    ) -> np.ndarray:
        if value is as_number:
            with contextlib.suppress(ValueError):
                return np.fromiter(map(float, cells), np.float64, len(cells))
        values = np.empty(len(cells))
        for i, (cell, number) in enumerate(zip(cells, numbers, strict=True)):
            known = value(cell.strip())
            if known is None:
                why = NO_DATE if value is as_date else f"no number{_decimals(cell, value)}"
                self.faults.add(number, self.places[j], f"{cell.strip()[:40]!a} is {why}")
                known = 0.0  # no blank besides
            values[i] = known
        return values

    def _refuse_decimal_commas(self, columns: Sequence[Sequence[str] | np.ndarray]) -> None:
        """Numbers with a decimal comma are no categories, though they read like text."""
        if self.number is not as_number:
            return
        for place, cells, value in zip(self.places, columns, self.values, strict=True):
            if value is None and (cell := decimal_comma_in(cells)):
                self.faults.add(-1, place, f"{cell[:40]!a} {WRITE_COMMA}")

    def table(self) -> np.ndarray:
        """All cells `[n, columns]`."""
        return np.frombuffer(self.cells).reshape(len(self.numbers), len(self.places))


def is_blank(cell: str) -> bool:
    """Whether a cell has no value."""
    return cell.strip() in BLANK


def as_number(cell: str) -> float | None:
    """A stripped cell as a number; NaN for a blank, None for other text."""
    if cell in BLANK:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None


def as_comma_number(cell: str) -> float | None:
    """A stripped cell with a decimal comma as a number; NaN for a blank, None for other text, and for a point.

    >>> as_comma_number("1,5"), as_comma_number("15"), as_comma_number("1.500,5")
    (1.5, 15.0, None)
    """
    if cell in BLANK:
        return math.nan
    return None if "." in cell else as_number(cell.replace(",", ".", 1))


def decimal_comma_in(cells: Sequence[str] | np.ndarray) -> str | None:
    """A cell with a decimal comma, where at least half of the first ones, blanks aside, are numbers written in that way."""
    if isinstance(cells, np.ndarray):
        return None
    known = [cell for cell in (cell.strip() for cell in cells[:JUDGED]) if cell not in BLANK]
    if not mostly_numbers(known, as_comma_number):
        return None
    return next((cell for cell in known if "," in cell and as_comma_number(cell) is not None), None)


def labels(
    cells: Sequence[str],
    numbers: Sequence[int],
    place: int,
    faults: Faults,
    drop: bool,
    number: Value = as_number,
) -> np.ndarray:
    """The labels of a target column `[n]`: whole numbers are classes, other numbers targets, text the names of classes.

    Args:
      cells: texts.
      numbers: of lines or rows.
      place: of the column among all columns.
      faults: collects what is wrong.
      drop: blanks are left alone, since their rows are dropped; they hold 0 or an empty name.
      number: what makes a number of a cell, as in `Features`.
    """
    cells = [cell.strip() for cell in cells]
    blank = [cell in BLANK for cell in cells]
    if not drop:
        for line in _where(blank, numbers):
            faults.add(
                line, place, "a sample without a label; write missing: drop to leave such rows out"
            )
    if not mostly_numbers(cells, number):
        if number is as_number and (cell := decimal_comma_in(cells)):
            faults.add(-1, place, f"{cell[:40]!a} {WRITE_COMMA}")
        return np.array(["" if empty else cell for cell, empty in zip(cells, blank, strict=True)])
    wrong = [number(cell) is None for cell in cells]
    for cell, line in zip(itertools.compress(cells, wrong), _where(wrong, numbers), strict=True):
        faults.add(
            line, place, f"{cell[:40]!a} is no number, and most labels are{_decimals(cell, number)}"
        )
    if any(wrong):
        return np.zeros(len(cells), np.int64)
    filled = ["0" if empty else cell for cell, empty in zip(cells, blank, strict=True)]
    try:
        y = np.array(list(map(int, filled)), np.int64)
        wrong, why = y < 0, "classes are 0, 1, 2, ..."
    except (ValueError, OverflowError):
        y = np.array([number(cell) for cell in filled], np.float64)
        wrong, why = ~np.isfinite(y), "no target to learn from"
    for row in np.flatnonzero(wrong).tolist():
        faults.add(numbers[row], place, f"{y[row]}: {why}")
    return y


def ids(
    cells: Sequence[str],
    numbers: Sequence[int],
    place: int,
    faults: Faults,
    noun: str = "client id",
    row: str = "sample",
) -> np.ndarray:
    """Client ids `[n]`: whole numbers if all are written as such, so that 10 comes behind 9; else text."""
    cells = [cell.strip() for cell in cells]
    for number in _where([cell in BLANK for cell in cells], numbers):
        faults.add(number, place, f"a {row} without a {noun}")
    try:
        whole = list(map(int, cells))
        if all(
            str(number) == cell for number, cell in zip(whole, cells, strict=True)
        ):  # 007 stays 007
            return np.array(whole, np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array(cells)


def mostly_numbers(cells: Sequence[str], number: Value = as_number) -> bool:
    """Whether at least half of the stripped cells that are not blank are numbers."""
    known = [number(cell) for cell in cells if cell not in BLANK]
    return 2 * sum(value is not None for value in known) >= len(known)


def as_date(cell: str) -> float | None:
    """A stripped cell as days since 1970-01-01 UTC; NaN for a blank, None for other text."""
    return math.nan if cell in BLANK else as_days(cell)


def value_of(cells: Sequence[str] | np.ndarray, number: Value = as_number) -> Value | None:
    """What makes numbers of a column's cells: `number` or `as_date`; None for text."""
    if isinstance(cells, np.ndarray):
        return number
    known = [cell for cell in (cell.strip() for cell in cells[:JUDGED]) if cell not in BLANK]
    if mostly_numbers(known, number):
        return number
    return as_date if 2 * sum(as_days(cell) is not None for cell in known) >= len(known) else None


def _code(cell: str, texts: dict[str, int]) -> float:
    """The place of a text among those of its column; behind the last that can be a category all are one."""
    if cell in BLANK:
        return math.nan
    return (
        texts.setdefault(cell, len(texts))
        if len(texts) <= MOST_CATEGORIES
        else texts.get(cell, MOST_CATEGORIES)
    )


def _where(mask: Sequence[bool], numbers: Sequence[int]) -> Iterator[int]:
    return itertools.compress(numbers, mask)


def _decimals(cell: str, number: Value) -> str:
    """What to do about a decimal comma where numbers have points, or the other way round."""
    cell = cell.strip()
    if number is as_number and "," in cell and as_comma_number(cell) is not None:
        return "; write decimals with a point"
    if number is as_comma_number and "." in cell and as_number(cell) is not None:
        return "; write decimals with a comma, and no points between digits"
    return ""
