"""Targets of samples with any number of labels: sets, or a 0 or 1 for each label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays


def with_label_columns(arrays: Arrays) -> Arrays:
    """Return samples whose targets are a 0.0 or 1.0 for each label `[n, L]`.

    Sets become columns in the sorted order of all labels; integers and truth values become floats.
    """
    targets: list[Any] = [arrays.y] if arrays.y_test is None else [arrays.y, arrays.y_test]
    if are_sets(arrays.y):
        names = _names([labels for y in targets for labels in y])
        y, *y_test = [_columns(y, names) for y in targets]
    else:
        y, *y_test = [_floats(y) for y in targets]
    return arrays._replace(y=y, y_test=y_test[0] if y_test else None)


def are_sets(y: Any) -> bool:
    """Return whether targets are sets of labels."""
    is_list = isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype.kind == "O")
    return is_list and len(y) > 0 and isinstance(y[0], set | frozenset)


def _names(sets: Sequence[Any]) -> list[Any]:
    for row, labels in enumerate(sets):
        if not isinstance(labels, set | frozenset):
            raise DataError(f"y: row {row} is {labels!r:.40}; labels are all sets, or none is")
    try:
        return sorted(frozenset().union(*sets))
    except TypeError:
        text = "labels of several types, which cannot be sorted"
        raise DataError(f"y: {text}; write all as text, or all as numbers") from None


def _columns(sets: Sequence[Any], names: list[Any]) -> np.ndarray:
    """A 0 or 1 for each label of each sample `[n, L]`."""
    return np.array([[name in labels for name in names] for labels in sets], np.float64)


def _floats(y: Any) -> np.ndarray:
    """Columns of integers or truth values as floats; classes `[n]` as they are."""
    y = np.asarray(y)
    return y.astype(np.float64) if y.ndim == 2 and y.dtype.kind in "biu" else y
