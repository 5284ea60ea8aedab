"""Labels of arrays: numbers that came as objects, and classes or targets, as `data.task` says."""

from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import Task

SETS = ("x", "y", "x_test", "y_test")


def without_objects(arrays: Arrays) -> Arrays:
    """Return the samples with arrays of Python's numbers as arrays of numbers."""
    plain = {}
    for name in SETS:
        values = getattr(arrays, name)
        if isinstance(values, np.ndarray) and values.dtype.kind == "O":
            numbers = _numbers(values)
            plain[name] = values if numbers is None else numbers
    return arrays._replace(**plain)


def with_task(arrays: Arrays, task: Task) -> Arrays:
    """Return the samples with their labels as classes or as numbers; None leaves them."""
    if task is None:
        return arrays
    convert = _classes if task == "classification" else _targets
    labels = {"y": convert("y", np.asarray(arrays.y))}
    if arrays.y_test is not None:
        labels["y_test"] = convert("y_test", np.asarray(arrays.y_test))
    return arrays._replace(**labels)


def is_one_hot(y: np.ndarray) -> bool:
    """Return whether labels `[n, C]` are rows with a single 1 among zeros."""
    if y.ndim != 2 or y.shape[1] < 2 or y.dtype.kind not in "biuf" or not len(y):
        return False
    return bool(np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all())


def _numbers(values: Any) -> np.ndarray | None:
    """An array of objects as one of numbers; None where not all are numbers."""
    try:
        numbers = np.array(values.tolist())
    except ValueError:  # rows of several lengths
        return None
    same_shape = numbers.shape == values.shape
    return numbers if numbers.dtype.kind in "biuf" and same_shape else None


def _classes(name: str, y: np.ndarray) -> np.ndarray:
    if y.dtype.kind not in "biuf":
        return y  # names of classes
    if is_one_hot(y):
        return y.argmax(1)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    whole = np.isfinite(y) & (np.floor(y) == y)
    if not whole.all():
        row = int((~whole).reshape(len(y), -1).any(1).argmax())
        raise DataError(f"{name}: row {row} has label {y[row]}; classes are 0, 1, 2, ...")
    return y.astype(np.int64)


def _targets(name: str, y: np.ndarray) -> np.ndarray:
    if y.dtype.kind not in "biuf":
        raise DataError(f"{name}: labels are {y.dtype}, which are no numbers to predict")
    return y.astype(np.float64) if y.dtype.kind != "f" else y
