"""Samples that stay in their file: a row is read when it is asked for, through the page cache."""

from collections.abc import Iterator
from typing import Any

import numpy as np

MIN_MAPPED_BYTES = 64 << 20  # features of this size or more stay in their file
CHUNK_BYTES = 1 << 26  # read at a time where all rows are read


class Mapped:
    """Rows of an array in a file, in any order, as `dtype`: the part of an array that readers need.

    Args:
      base: the mapped array.
      rows: the indices of the rows; all rows by default.
      dtype: the float type that rows are returned in.
    """

    def __init__(self, base: np.ndarray, rows: np.ndarray | None = None, dtype: Any = None):
        self.base = base
        self.rows = np.arange(len(base)) if rows is None else rows
        self.dtype = np.dtype(base.dtype if dtype is None else dtype)
        self.shape = (len(self.rows), *base.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __getitem__(self, index: Any) -> np.ndarray:
        """Read rows now."""
        return np.asarray(self.base[self.rows[index]], self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def select(self, rows: np.ndarray) -> "Mapped":
        """Return a selection of the rows without reading it."""
        return Mapped(self.base, self.rows[rows], self.dtype)


def chunks(values: Any) -> Iterator[np.ndarray]:
    """Yield all rows of an array, a chunk at a time where they are in a file."""
    if not isinstance(values, Mapped):
        yield values
        return
    rows_per_chunk = max(CHUNK_BYTES * len(values) // max(values.nbytes, 1), 1)
    for first in range(0, len(values), rows_per_chunk):
        yield values[first : first + rows_per_chunk]


def is_memmap(values: np.ndarray) -> bool:
    """Return whether an array is mapped from a file."""
    base: Any = values
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def take_rows(values: Any, rows: np.ndarray) -> Any:
    """Return rows of an array: a copy, or, where they are in a file, a selection of its rows."""
    return values.select(rows) if isinstance(values, Mapped) else values[rows]
