"""Ids of clients and groups, by one rule in every format: numbers where all are, else texts."""

import contextlib
from typing import Any

import numpy as np

from fedsim.errors import DataError

BLANK = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"))  # cells without a value
MAX_WHOLE = 2.0**53  # up to here every whole float is one whole number


def number_ids(ids: Any) -> tuple[np.ndarray, list[Any]]:
    """Number clients by their sorted ids `[n]` -> (client number of every row, names by number).

    Client k has the k-th smallest id, as `sortable` has them.
    """
    unique_ids, numbers = np.unique(sortable(ids), return_inverse=True)
    names = [name if isinstance(name, int | float) else str(name) for name in unique_ids.tolist()]
    return numbers.astype(np.int32), names


def sortable(ids: Any) -> np.ndarray:
    """Return ids `[n]` as whole numbers if all are whole; else as numbers, if all are; else texts.

    Texts are numbers where they have the usual form: `10`, `10.0` and `2.5`, but not `007`.

    >>> sortable(["10.0", "2.0"]).tolist(), sortable(["10", "2.5"]).tolist()
    ([10, 2], [10.0, 2.5])
    >>> sortable(["10", "007"]).tolist()
    ['10', '007']
    """
    values = np.asarray(ids)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind in "UTO":
        values = _numbers(list(map(str, values.tolist())))
    if values.dtype.kind != "f":
        return values
    whole = (np.floor(values) == values) & (np.abs(values) < MAX_WHOLE)
    return values.astype(np.int64) if whole.all() else values


def missing_id(ids: np.ndarray) -> int | None:
    """Return the first row of ids `[n]` without one: NaN, None or a blank text; None: all have."""
    if ids.dtype.kind == "f":
        missing = ~np.isfinite(ids)
    elif ids.dtype.kind in "UTO":
        missing = np.array([_is_missing(value) for value in ids.tolist()], bool)
    else:
        return None
    return int(missing.argmax()) if missing.any() else None


def require_ids(name: str, ids: Any, rows: int) -> np.ndarray:
    """Return the ids of clients `[n]`, one for each sample; errors name the first row without."""
    ids = np.asarray(ids)
    if ids.ndim != 1:
        raise DataError(f"{name}: expected one id per sample, found an array of shape {ids.shape}")
    if len(ids) != rows:
        raise DataError(f"{name}: {len(ids)} ids for {rows} samples")
    row = missing_id(ids)
    if row is not None:
        raise DataError(f"{name}: row {row} has no id; leave such rows out, or name their client")
    return ids


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in BLANK
    return value is None or value != value


def _numbers(texts: list[str]) -> np.ndarray:
    """Texts as numbers, where all have the usual form of one; else as they are."""
    with contextlib.suppress(ValueError, OverflowError):
        whole = list(map(int, texts))
        if list(map(str, whole)) == texts:
            return np.array(whole, np.int64)
    with contextlib.suppress(ValueError):
        numbers = list(map(float, texts))
        usual = [repr(number).removesuffix(".0") for number in numbers]
        written = [text.removesuffix(".0") for text in texts]
        if written == usual and np.isfinite(numbers).all():
            return np.array(numbers)
    return np.array(texts)
