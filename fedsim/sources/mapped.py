"""Samples that stay in their file: read where rows are asked for, through the operating system's page cache."""

from collections.abc import Iterator
from typing import Any

import numpy as np

STAYS_BYTES = 64 << 20  # of features that are read from their file row by row, at least
CHUNK_BYTES = 1 << 26  # read at a time when all rows are read


class Mapped:
    """Some rows of an array in a file, in an order, as `dtype`: what reads samples needs of an array, and no more.

    Args:
      base: the array, mapped.
      rows: of it, all by default.
      dtype: float type that rows are handed out in.
    """

    def __init__(self, base: np.ndarray, rows: np.ndarray | None = None, dtype: Any = None):
        self.base, self.rows = base, np.arange(len(base)) if rows is None else rows
        self.dtype = np.dtype(base.dtype if dtype is None else dtype)
        self.shape = (len(self.rows), *base.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __getitem__(self, index: Any) -> np.ndarray:
        """Rows, read now."""
        return np.asarray(self.base[self.rows[index]], self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def only(self, rows: np.ndarray) -> "Mapped":
        """Some of the rows, not read."""
        return Mapped(self.base, self.rows[rows], self.dtype)


def chunks(values: Any) -> Iterator[np.ndarray]:
    """All rows of an array, a part at a time where they lie in a file."""
    if not isinstance(values, Mapped):
        yield values
        return
    step = max(CHUNK_BYTES * len(values) // max(values.nbytes, 1), 1)
    for first in range(0, len(values), step):
        yield values[first : first + step]


def in_file(values: np.ndarray) -> bool:
    """Whether an array is a map of a file."""
    base: Any = values
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def take_rows(values: Any, rows: np.ndarray) -> Any:
    """Rows of an array: a copy, or, where they lie in a file, the same file."""
    return values.only(rows) if isinstance(values, Mapped) else values[rows]
