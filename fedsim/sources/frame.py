"""Data frames as tables: the same rules as for a file."""

import numbers as numeric
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import Features
from fedsim.sources.columns import Missing, arrays_of, roles
from fedsim.sources.dates import days_of
from fedsim.sources.faults import Faults

NESTED = (list, tuple, dict, set, bytes, np.ndarray)
CHUNK = 1 << 16  # rows that are copied at a time


def of_frame(
    frame: Any,
    target: str = "y",
    client: str | None = None,
    missing: Missing = "refuse",
    drop: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Arrays:
    """The samples of a pandas DataFrame, one in each row; its index does not count.

    Columns of numbers and truth values are features as they are; moments become days since 1970-01-01 UTC (UTC where they
    have no time zone), durations days; all others are read as text. Of the target, whole numbers are classes, floats
    targets (whole floats beside blanks are classes: pandas has no other way to hold them).

    Args:
      frame: the DataFrame.
      target: column of the labels.
      client: column of the ids; None: `client`, if there is such a column.
      missing: what happens to blanks.
      drop: columns that are left out.
      columns: that are kept for the partition, and are no features.

    Raises:
      DataError: naming rows, counted from 0, and columns.
    """
    names = [str(name).strip() for name in frame.columns]
    places = roles(names, target, client, drop, columns)
    faults = Faults("row", names)
    features = Features(places.features, faults)
    for first in range(0, len(frame), CHUNK):
        chunk = frame.iloc[first : first + CHUNK]
        rows = range(first, first + len(chunk))
        features.read([feature(chunk.iloc[:, place]) for place in places.features], rows)
    y = _cells(frame.iloc[:, places.target])
    who = [] if places.client is None else _cells(frame.iloc[:, places.client])
    kept = [_cells(frame.iloc[:, place]) for place in places.kept]
    return arrays_of(places, features, y, who, kept, missing, faults)


def feature(column: Any) -> np.ndarray | list[str]:
    """Numbers as floats, moments and durations as days, blanks as NaN; anything else as text."""
    kind = column.dtype.kind
    if kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind in "mM":
        return days_of(column.to_numpy("datetime64[us]" if kind == "M" else "timedelta64[us]"))
    return _cells(column)


def _cells(column: Any) -> list[str]:
    """A column as the cells of a text file."""
    if column.dtype.kind == "f":
        known = column.dropna()
        if len(known) < len(column) and (known % 1 == 0).all():
            column = column.astype("Int64")
    values, empty = column.tolist(), column.isna().tolist()
    if any(isinstance(value, NESTED) for value in values):
        raise DataError(
            f"column {str(column.name)[:40]!a}: holds lists; a column for each number, or text, is needed"
        )
    return ["" if blank else _cell(value) for value, blank in zip(values, empty, strict=True)]


def _cell(value: Any) -> str:
    number = isinstance(value, numeric.Real) and not isinstance(value, bool)
    return repr(float(value)) if number and not isinstance(value, numeric.Integral) else str(value)
