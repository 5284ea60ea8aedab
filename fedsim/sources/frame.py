"""Data frames as tables, by the same rules as for files."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import Features
from fedsim.sources.columns import Missing, Table, arrays_of, assign_roles
from fedsim.sources.dates import days_of
from fedsim.sources.faults import Faults

NESTED = (list, tuple, dict, set, bytes, np.ndarray)
CHUNK_ROWS = 1 << 16  # copied at a time


def of_frame(
    frame: Any,
    target: str = "y",
    client: str | None = None,
    missing: Missing = "refuse",
    drop: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Arrays:
    """Return the samples of a pandas DataFrame, one for each row; its index does not count.

    Columns of numbers and truth values are features as they are; timestamps become days since
    1970-01-01 UTC (UTC where they have no time zone), durations become days; all other columns are
    read as text. In the target, whole numbers are classes and floats are regression targets (whole
    floats next to blanks are classes: pandas has no other way to hold them).

    Args:
      frame: the DataFrame.
      target: the column of the labels.
      client: the column of the ids; None: `client`, if there is such a column.
      missing: what happens to blanks.
      drop: columns that are left out.
      columns: columns for partitions, which are not features.

    Raises:
      DataError: naming rows, counted from 0, and columns.
    """
    names = [str(name).strip() for name in frame.columns]
    roles = assign_roles(names, target, client, drop, columns)
    faults = Faults("row", names)
    features = Features(roles.features, faults)
    for first in range(0, len(frame), CHUNK_ROWS):
        chunk = frame.iloc[first : first + CHUNK_ROWS]
        values = [feature(chunk.iloc[:, column]) for column in roles.features]
        features.read(values, range(first, first + len(chunk)))

    table = Table(
        roles=roles,
        features=features,
        target=_cells(frame.iloc[:, roles.target]),
        client=[] if roles.client is None else _cells(frame.iloc[:, roles.client]),
        extra=[_cells(frame.iloc[:, column]) for column in roles.extra],
        faults=faults,
    )
    return arrays_of(table, missing)


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
    if column.dtype.kind == "f":
        present = column.dropna()
        if len(present) < len(column) and (present % 1 == 0).all():
            column = column.astype("Int64")

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
