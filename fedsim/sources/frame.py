"""Data frames as tables, by the same rules as for files."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import BLANK, Task, numbers_of, parse_date, parse_number
from fedsim.sources.columns import Dates, Missing, Reading, Table, arrays_of, assign_roles
from fedsim.sources.dates import days_of
from fedsim.sources.faults import MAX_LISTED, Faults
from fedsim.sources.remembered import BLANK_CATEGORY, TableColumn

NESTED = (list, tuple, dict, set, bytes, np.ndarray)


def of_frame(
    frame: Any,
    target: str = "y",
    client: str | None = None,
    missing: Missing = "refuse",
    dates: Dates = None,
    task: Task = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Arrays:
    """Return the samples of a pandas DataFrame, one for each row; its index does not count.

    Columns of numbers and truth values are features as they are; timestamps are days since
    1970-01-01 UTC (UTC where they have no time zone), durations become days; all other columns are
    read as text. In the target, whole numbers are classes and floats are regression targets (whole
    floats next to blanks are classes: pandas has no other way to hold them).

    Args:
      frame: the DataFrame.
      target: the column of the labels.
      client: the column of the ids; None: `client`, if there is such a column.
      missing: what happens to blanks.
      dates: whether dates may be features.
      task: what the target is, whatever its numbers look like.
      drop: columns that are left out.
      columns: columns for partitions, which are not features.

    Raises:
      DataError: naming rows, counted from 0, and columns.
    """
    names = [str(name).strip() for name in frame.columns]
    roles = assign_roles(names, target, client, drop, columns)
    cells: list[Any] = [()] * len(names)
    for column in roles.used():
        values = frame.iloc[:, column]
        cells[column] = feature(values) if column in roles.features else _cells(values)
    table = Table(
        roles=roles,
        cells=cells,
        row_numbers=range(len(frame)),
        faults=Faults("row", names),
        days=[column for column in roles.features if frame.dtypes.iloc[column].kind == "M"],
    )
    return arrays_of(table, Reading(missing, dates, task))


def is_frame(x: Any) -> bool:
    """Whether samples are a DataFrame, whose columns have names."""
    return hasattr(x, "columns") and hasattr(x, "iloc")


def features_of(frame: Any, columns: Sequence[TableColumn]) -> np.ndarray:
    """Return the features `[n, F]` of a DataFrame by the columns of an earlier table; NaN: blank.

    Its columns may be in any order. Those that are no features may be there or not.

    Raises:
      DataError: naming columns that are missing or unknown, and rows, counted from 0, with cells
        that the earlier table could not have had.
    """
    names = [str(name).strip() for name in frame.columns]
    if any(column.name == "" for column in columns):  # which pandas calls by its position
        names = ["" if name == f"Unnamed: {j}" else name for j, name in enumerate(names)]
    _require_columns(names, columns)
    faults = Faults("row", names)
    blocks: list[np.ndarray] = []
    for column in columns:
        if column.kind:
            position = names.index(column.name)
            values = frame.iloc[:, position]
            encode = _one_hot if column.kind == "text" else _numbers
            blocks.append(encode(values, column, position, faults))
    if faults.count:
        raise DataError(*faults.by_column().values())
    return np.concatenate(blocks, axis=1)


def _require_columns(names: list[str], columns: Sequence[TableColumn]) -> None:
    """Refuse a frame without all feature columns, or with columns that the table did not have."""
    known = [column.name for column in columns]
    missing = [column.name for column in columns if column.kind and column.name not in names]
    unknown = [name for name in names if name not in known]
    problems = [f"no column {name[:40]!a}, which is a feature" for name in missing]
    problems += [f"column {name[:40]!a} is unknown; leave it out" for name in unknown]
    problems += [f"two columns are called {n[:40]!a}" for n in known if names.count(n) > 1]
    if problems:
        raise DataError(*problems[:MAX_LISTED])


def _numbers(values: Any, column: TableColumn, position: int, faults: Faults) -> np.ndarray:
    """A column of numbers or dates `[n, 1]`."""
    cells = feature(values)
    if isinstance(cells, np.ndarray):
        return cells[:, None]
    parser = parse_date if column.kind == "dates" else parse_number
    return numbers_of(cells, range(len(cells)), position, faults, parser)[:, None]


def _one_hot(values: Any, column: TableColumn, position: int, faults: Faults) -> np.ndarray:
    """A column of text as a feature for each of its categories `[n, categories]`."""
    cells = np.array([cell.strip() for cell in _cells(values)])
    blank = np.isin(cells, list(BLANK))
    if BLANK_CATEGORY in column.categories:
        cells = np.where(blank, BLANK_CATEGORY, cells)
        blank[:] = False
    for row in np.flatnonzero(~np.isin(cells, column.categories)).tolist():
        fault = "blank" if blank[row] else f"{str(cells[row])[:40]!a} is unknown"
        listed = ", ".join(ascii(text[:20]) for text in column.categories[:6])
        faults.add(row, position, f"{fault}; the texts that were trained on are {listed}")
    return (cells[:, None] == np.array(column.categories)).astype(np.float64)


def feature(column: Any) -> np.ndarray | list[str]:
    """Numbers as floats, timestamps and durations as days, blanks as NaN; anything else as text."""
    kind = column.dtype.kind
    if kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind == "M":
        return days_of(column.to_numpy("datetime64[us]"))
    if kind == "m":
        return days_of(column.to_numpy("timedelta64[us]"))
    return _cells(column)


def _cells(column: Any) -> list[str]:
    """The cells that a text file would have for a column."""
    values = column.tolist()
    if any(isinstance(value, NESTED) for value in values):
        raise DataError(
            f"column {str(column.name)[:40]!a}: holds lists; "
            "expected text, or a column for each number"
        )
    blanks = column.isna().tolist()
    return ["" if blank else _cell(value) for value, blank in zip(values, blanks, strict=True)]


def _cell(value: Any) -> str:
    if isinstance(value, bool | numbers.Integral):
        return str(value)
    return repr(float(value)) if isinstance(value, numbers.Real) else str(value)
