"""Cells of a table -> numbers, dates, texts, labels and ids, by pandas."""

from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.faults import Faults
from fedsim.sources.ids import BLANK, sortable
from fedsim.sources.names import require_sound

MAX_LABEL = 2**63  # of whole numbers, beyond the largest
MAX_CATEGORIES = 100  # texts of a column that become features
NESTED = (list, tuple, dict, set, bytes, np.ndarray)
YEAR_AND_MONTH = r"\d{4}-\d\d"  # begin a date
NO_DATE = (
    "not a date, but most cells of the column are; write 2024-05-01, or 2024-05-01T12:00+02:00"
)
COMMAS = "has a decimal comma, or one between thousands; write decimal: ',', or 1234.5"

Task = Literal["classification", "regression"] | None
Kind = Literal["numbers", "dates", "text"]
Decimal = Literal[".", ","]


class Feature(NamedTuple):
    """A feature column of a table.

    Numbers, and days since 1970-01-01 UTC, have NaN for blanks `[n]`; texts are objects, with None.
    """

    kind: Kind
    values: np.ndarray

    @property
    def blanks(self) -> np.ndarray:
        """Which cells have no value `[n]`."""
        if self.kind == "text":
            return np.array([text is None for text in self.values], bool)
        return np.isnan(self.values)


class Column(NamedTuple):
    """A column of a table."""

    cells: Any  # a pandas Series of stripped texts; or numbers `[n]` with NaN for blanks
    position: int  # among all columns
    faults: Faults  # collects what is wrong
    decimal: Decimal = "."

    @property
    def blanks(self) -> np.ndarray:
        """Which texts are blank `[n]`."""
        return self.cells.isin(BLANK).to_numpy()

    def add(self, wrong: np.ndarray, fault: str) -> None:
        """Add a problem of the cells that are marked `[n]`; `{}` in it stands for the cell."""
        self.faults.add(
            self.position, wrong, lambda row: fault.replace("{}", ascii(self.cells.iloc[row][:40]))
        )


def cells_of(column: Any) -> Any:
    """Return the cells of a pandas Series as numbers `[n]`, or as the texts that a file would have.

    Numbers and truth values are floats, timestamps and durations are days, both with NaN for
    blanks; anything else is a Series of text. Lists are refused.
    """
    kind = column.dtype.kind
    if kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind in "Mm":
        return days_of(column.to_numpy(f"{kind}8[us]"))
    return texts_of(column)


def texts_of(column: Any) -> Any:
    """Return the texts, stripped, that a file would have for a pandas Series, as a Series.

    Cells that are lists are refused, and texts that are not UTF-8.
    """
    import pandas as pd

    if column.dtype == "str":
        return column.fillna("").str.strip()
    title = f"column {str(column.name)[:40]!a}"
    values = column.astype(object)
    if values.map(lambda value: isinstance(value, NESTED)).any():
        remedy = "expected text, or a column for each number"
        raise DataError(f"{title}: holds lists; {remedy}")
    texts = list(map(str, values.where(column.notna(), "")))
    require_sound(title, texts)
    return pd.Series(texts, column.index, dtype="str").str.strip()


def numbers_in(texts: Any, decimal: Decimal = ".") -> np.ndarray:
    """Return a Series of texts as numbers `[n]`, NaN where they are none."""
    import pandas as pd

    if decimal == ",":
        has_point = texts.str.contains(".", regex=False)
        texts = texts.mask(has_point, "").str.replace(",", ".", n=1, regex=False)
    numbers: Any = pd.to_numeric(texts, errors="coerce")
    return numbers.to_numpy(np.float64)


def days_in(texts: Any) -> np.ndarray:
    """Return a Series of texts as days since 1970-01-01 UTC `[n]`, NaN where they are no ISO dates.

    A time without an offset is UTC.
    """
    import pandas as pd

    dates = texts.where(texts.str.match(YEAR_AND_MONTH), None)
    moments: Any = pd.to_datetime(dates, format="ISO8601", errors="coerce", utc=True)
    return days_of(moments.to_numpy("datetime64[us]"))


def days_of(moments: np.ndarray) -> np.ndarray:
    """Moments (datetime64, UTC) or durations (timedelta64) `[n]` as days; NaT becomes NaN.

    >>> days_of(np.array(["1970-01-03T06:00", "NaT"], "datetime64[s]")).tolist()
    [2.25, nan]
    """
    durations = moments - np.datetime64(0, "s") if moments.dtype.kind == "M" else moments
    return durations / np.timedelta64(1, "D")


def content_of(texts: Any, decimal: Decimal = ".") -> tuple[Kind, np.ndarray]:
    """Return what a column of texts holds, and its numbers or days, NaN where there are none `[n]`.

    It holds numbers where at least half of its cells that are not blank are numbers; else dates,
    where at least half of them are; else text.
    """
    numbers = numbers_in(texts, decimal)
    if not np.isnan(numbers).any():  # the usual column of a wide table: blanks are not looked for
        return "numbers", numbers
    blanks = texts.isin(BLANK).to_numpy()
    if _are_most(numbers, blanks):
        return "numbers", numbers
    days = days_in(texts)
    return "dates" if _are_most(days, blanks) else "text", days


def feature_of(column: Column) -> Feature:
    """Return a feature column, as `content_of` tells; other cells in it are faults."""
    if isinstance(column.cells, np.ndarray):
        return Feature("numbers", column.cells)
    kind, values = content_of(column.cells, column.decimal)
    if kind != "text":
        return Feature(kind, sound_numbers(column, kind, values))
    _add_fault_of_commas(column)
    return Feature(kind, column.cells.astype(object).mask(column.blanks, None).to_numpy())


def sound_numbers(column: Column, kind: Kind, values: np.ndarray) -> np.ndarray:
    """Return the numbers or days of a column of texts; what is neither one nor blank is a fault."""
    missing = np.isnan(values)
    if not missing.any():
        return values
    wrong = missing & ~column.blanks
    column.add(wrong, f"{{}} is {NO_DATE if kind == 'dates' else 'not a number'}")
    return np.where(wrong, 0.0, values)  # so that they are not reported as blanks too


def parse_labels(column: Column, drop: bool, task: Task = None) -> np.ndarray:
    """The labels of a target column `[n]`.

    Whole numbers are classes, other numbers are regression targets, texts are names of classes,
    unless the task says otherwise. Next to blanks 1.0 is a whole number too, since pandas writes
    whole numbers there like that. Blanks are 0 or empty names where their rows are dropped later.
    """
    blanks = column.blanks
    if not drop:
        column.add(blanks, "a sample without a label; write missing: drop to leave such rows out")
    y = numbers_in(column.cells, column.decimal)
    if not _are_most(y, blanks):
        _add_fault_of_commas(column)
        if task == "regression":
            fault = "texts, which are no numbers to predict; name another column, or remove task"
            column.faults.add_to_column(column.position, fault)
        return np.where(blanks, "", np.array(column.cells.tolist(), str))

    wrong = np.isnan(y) & ~blanks
    column.add(wrong, "{} is not a number, but most labels are")
    if wrong.any():
        return np.zeros(len(y), np.int64)

    y = np.where(blanks, 0.0, y)
    whole = np.isfinite(y) & (np.floor(y) == y)
    remedy = ""
    are_integers = column.cells[~blanks].str.fullmatch(r"[+-]?\d+").all()
    if task is None and (are_integers or (blanks.any() and whole.all())):
        task = "classification"
        remedy = "; task: regression predicts numbers"
    if task != "classification":
        wrong = ~np.isfinite(y)
        reason = " cannot be a target"
    else:
        wrong = ~whole | (y < 0) | (y >= MAX_LABEL)
        reason = f": classes are 0, 1, 2, ...{remedy}"
    column.faults.add(column.position, wrong, lambda row: f"{column.cells.iloc[row]}{reason}")
    return y.astype(np.int64) if task == "classification" and not wrong.any() else y


def parse_ids(column: Column, noun: str = "client id", row: str = "sample") -> np.ndarray:
    """Client ids `[n]`, as `sortable` has them; nouns of a cell and a row are for faults."""
    column.add(column.blanks, f"a {row} without a {noun}")
    return sortable(column.cells.tolist())


def _are_most(values: np.ndarray, blanks: np.ndarray) -> bool:
    """Whether at least half of the cells that are not blank have a value."""
    known = values[~blanks]
    return 2 * int((~np.isnan(known)).sum()) >= len(known)


def _add_fault_of_commas(column: Column) -> None:
    """Add the fault of a column of text whose cells are numbers but for their commas."""
    has_comma = column.cells.str.contains(",", regex=False)
    if column.decimal == "," or not has_comma.any():
        return
    if _are_most(numbers_in(column.cells.str.replace(",", "")), column.blanks):
        found = column.cells[has_comma].iloc[0]
        column.faults.add_to_column(column.position, f"{found[:40]!a} {COMMAS}")
