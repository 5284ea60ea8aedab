"""Data frames for prediction: features by the columns of an earlier table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import BLANK_CATEGORY, TableColumn
from fedsim.sources.cells import Column, cells_of, days_in, numbers_in, sound_numbers, texts_of
from fedsim.sources.faults import MAX_LISTED, Faults
from fedsim.sources.ids import BLANK

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
    if faults.counts.total():
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
    kind = "dates" if column.kind == "dates" else "numbers"
    parsed = days_in(cells) if kind == "dates" else numbers_in(cells)
    return sound_numbers(Column(cells, position, faults), kind, parsed)[:, None]


def _one_hot(values: Any, column: TableColumn, position: int, faults: Faults) -> np.ndarray:
    """A column of text as a feature for each of its categories `[n, categories]`."""
    # pandas reads TRUE as a truth value, which it writes as True.
    written = {text.title(): text for text in column.categories if text.title() in TRUTH_VALUES}
    cells = texts_of(values).replace(written)
    blanks = cells.isin(BLANK)
    if BLANK_CATEGORY in column.categories:
        cells = cells.mask(blanks, BLANK_CATEGORY)
        blanks = blanks & False
    listed = ", ".join(ascii(text[:20]) for text in column.categories[:6])
    remedy = f"the texts that were trained on are {listed}"
    in_column = Column(cells, position, faults)
    in_column.add(blanks.to_numpy(), f"blank; {remedy}")
    unknown = ~cells.isin(column.categories) & ~blanks
    in_column.add(unknown.to_numpy(), f"{{}} is unknown; {remedy}")
    texts = cells.to_numpy(object)
    return (texts[:, None] == np.array(column.categories, object)).astype(np.float64)
