"""Data frames for prediction: features by the columns of an earlier table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.cells import (
    BLANK,
    Column,
    cells_of,
    numbers_of,
    parse_date,
    parse_number,
    texts_of,
)
from fedsim.sources.faults import MAX_LISTED, Faults
from fedsim.sources.remembered import BLANK_CATEGORY, TableColumn

TRUTH_VALUES = ("True", "False")


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
    faults = Faults(names)
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
    cells = cells_of(values)
    if isinstance(cells, np.ndarray):
        return cells[:, None]
    parser = parse_date if column.kind == "dates" else parse_number
    return numbers_of(Column(cells, range(len(cells)), position, faults), parser)[:, None]


def _one_hot(values: Any, column: TableColumn, position: int, faults: Faults) -> np.ndarray:
    """A column of text as a feature for each of its categories `[n, categories]`."""
    # pandas reads TRUE as a truth value, which it writes as True.
    written = {text.title(): text for text in column.categories if text.title() in TRUTH_VALUES}
    cells = np.array([written.get(cell, cell) for cell in texts_of(values)])
    blank = np.isin(cells, list(BLANK))
    if BLANK_CATEGORY in column.categories:
        cells = np.where(blank, BLANK_CATEGORY, cells)
        blank[:] = False
    for row in np.flatnonzero(~np.isin(cells, column.categories)).tolist():
        fault = "blank" if blank[row] else f"{str(cells[row])[:40]!a} is unknown"
        listed = ", ".join(ascii(text[:20]) for text in column.categories[:6])
        faults.add(row, position, f"{fault}; the texts that were trained on are {listed}")
    return (cells[:, None] == np.array(column.categories)).astype(np.float64)
