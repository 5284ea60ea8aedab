"""Samples in memory, and the checks that they can be learned from."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.classes import fault_of_classes
from fedsim.sources.mapped import Mapped, chunks, in_file
from fedsim.sources.names import require_sound

MOST_CLASSES = 1_000_000


class Arrays(NamedTuple):
    """Samples in memory, what every reader ends in.

    A sample is a row: for sequences of tokens, one sequence. Where every token has a label, losses and accuracies are means
    over the tokens that have one.

    Args:
      x: features `[n, ...]`; stored as floats, but bytes (uint8) as bytes, and tokens as integers.
      y: labels `[n]` (integers: classes 0, 1, ...; text: names of classes, numbered in the order of the sorted names;
        floats: regression targets `[n, ...]`), or `[n, T]` integers: a label for each of T tokens, −1 where there is none.
      client: optional natural partition `[n]`, any ids that can be sorted. Tables show the ids; wherever a scenario names
        clients by number, client k is the one with the k-th smallest id.
      x_test: optional test features; without them a share `data.test` of the samples is kept to test on.
      y_test: optional test labels.
      client_test: optional ids of the clients that the test samples belong to: under the natural partition these are the
        client's own test samples, and all of them together the test set. An id may stand there alone.
      scale: features are what x holds, times this: 1/255 for the bytes of images.
      vocabulary: above 0, x holds tokens `[n, T]`, integers from 0 to vocabulary − 1. Integer x and y of one shape `[n, T]`
        are tokens without it.
      labels: optional names of classes 0, 1, ...
      features: optional names of the columns of x `[n, F]`.
      columns: optional further columns `[n]` by name, for partitions.

    >>> import fedsim
    >>> ward = fedsim.Arrays(x=np.eye(4), y=np.array([0, 1, 0, 1]), client=np.array(["b", "a", "b", "a"]))
    >>> result = fedsim.run({"name": "own", "rounds": 1, "data": {"test": 0}}, data=ward)
    >>> result.clients[["client", "samples"]].values.tolist()
    [['a', 2], ['b', 2]]
    """

    x: np.ndarray
    y: np.ndarray
    client: np.ndarray | None = None
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    client_test: np.ndarray | None = None
    scale: float = 1.0
    vocabulary: int = 0
    labels: Sequence[str] | None = None
    features: Sequence[str] | None = None
    columns: Mapping[str, np.ndarray] | None = None


class Names(NamedTuple):
    """What the samples call their classes, clients and features; None where those are just numbers."""

    labels: tuple[str, ...] | None = None  # by class
    clients: tuple[Any, ...] | None = None  # by client number: text, or integers in rising order
    features: tuple[str, ...] | None = None  # by place in x


def checked(arrays: Arrays, dtype: np.dtype | None, blanks: bool = False) -> tuple[Arrays, int]:
    """Samples as the device wants them, and the number of classes (0: regression); every fault is named with its row.

    Args:
      arrays: samples.
      dtype: float type of features and targets; None keeps what they are.
      blanks: whether features may be NaN.

    Raises:
      DataError: lengths that differ, non-finite numbers, labels that are no classes, ids that are none, tokens beyond the
        vocabulary.
    """
    arrays = arrays._replace(vocabulary=vocabulary_of(arrays))
    x, y = np.asarray(arrays.x), np.asarray(arrays.y)
    _require_rows("x", x)
    _require_rows("y", y)
    if len(x) == 0:
        raise DataError("x: no samples")
    pair = [None if part is None else np.asarray(part) for part in (arrays.x_test, arrays.y_test)]
    if all(part is not None and part.ndim > 0 and len(part) == 0 for part in pair):
        arrays = arrays._replace(
            x_test=None, y_test=None
        )  # a test set of no rows is none, whatever its type
    if arrays.x_test is None and arrays.y_test is not None:
        raise DataError("y_test is given without x_test")
    if arrays.x_test is not None and arrays.y_test is None:
        raise DataError("x_test is given without y_test")
    regression = bool(np.issubdtype(y.dtype, np.floating))
    if y.ndim == 2 and not regression and y.shape != x.shape[:2]:
        text = "integer labels [n] are needed, or [n, T] for sequences of length T"
        raise DataError(f"y: {text}, found {y.dtype} {y.shape} for x {x.shape}")
    kept = {"dtype": dtype, "blanks": blanks, "vocabulary": arrays.vocabulary}
    done = [
        _features("x", x, x.shape[1:], len(y), **kept),
        _labels("y", y, y.shape[1:], regression, dtype),
    ]
    if arrays.x_test is None:
        done += [np.zeros((0, *x.shape[1:]), done[0].dtype), done[1][:0]]
    else:
        x_test, y_test = np.asarray(arrays.x_test), np.asarray(arrays.y_test)
        _require_rows("y_test", y_test)
        done.append(_features("x_test", x_test, x.shape[1:], len(y_test), **kept))
        done.append(_labels("y_test", y_test, y.shape[1:], regression, dtype))
    if (
        dtype is not None and done[0].dtype != done[2].dtype
    ):  # bytes beside numbers: only numbers hold both
        done[::2] = (
            _finite(name, part, np.dtype(dtype))
            for name, part in (("x", done[0]), ("x_test", done[2]))
        )
    x, y, x_test, y_test = done
    client_test = (
        None if arrays.client_test is None else _ids("client_test", arrays.client_test, len(x_test))
    )
    client = None if arrays.client is None else _ids("client", arrays.client, len(x))
    sound = {
        "x": x,
        "y": y,
        "client": client,
        "x_test": x_test,
        "y_test": y_test,
        "client_test": client_test,
    }
    return arrays._replace(**sound), 0 if regression else class_count(arrays, y, y_test)


def per_token(y: Any) -> bool:
    """Whether labels are those of tokens, `[n, T]`."""
    return y.ndim == 2 and np.issubdtype(y.dtype, np.integer)


def vocabulary_of(arrays: Arrays) -> int:
    """How many tokens there are; 0 where features are numbers."""
    x, y = np.asarray(arrays.x), np.asarray(arrays.y)
    tokens = (
        x.ndim == 2
        and x.shape == y.shape
        and x.dtype.kind in "iu"
        and y.dtype.kind in "iu"
        and x.size > 0
    )
    if arrays.vocabulary or not tokens:
        return int(arrays.vocabulary)
    parts = (arrays.x, arrays.y, arrays.x_test, arrays.y_test)
    return 1 + int(max(np.max(part) for part in parts if part is not None and np.size(part)))


def class_count(arrays: Arrays, *labels: np.ndarray) -> int:
    """How many classes there are: as many as have names, or tokens to choose from, or else as occur.

    Args:
      arrays: samples, with their vocabulary.
      labels: those of all samples, integers `[n]` or `[n, T]`, in parts.

    Raises:
      DataError: for timestamps and ids, and for classes beyond those that have names.
    """
    if arrays.labels is None and not per_token(labels[0]):  # whoever names classes knows them
        _require_classes(np.concatenate(labels))
    classes = int(max(part.max() for part in labels if part.size)) + 1
    named = 0 if arrays.labels is None else len(arrays.labels)
    if named and named < classes:
        raise DataError(
            f"labels: {named} names, and y has a class {classes - 1}; classes are 0 to {named - 1}"
        )
    if classes > MOST_CLASSES:
        raise DataError(f"y: {classes:,} classes; at most {MOST_CLASSES:,}, numbered closely")
    return max(classes, named, arrays.vocabulary if per_token(labels[0]) else 0)


def _require_classes(labels: np.ndarray) -> None:
    """Refuse timestamps and ids as labels `[n]`."""
    fault = fault_of_classes(labels)
    if fault is not None:
        raise DataError(f"y: {fault}")


def _require_rows(name: str, values: np.ndarray) -> None:
    """Refuse what has no axis of rows, or rows without a number in them."""
    if values.ndim == 0:
        raise DataError(f"{name}: a single number; needed is an array with a row for every sample")
    if values.size == 0 and len(values):
        raise DataError(f"{name}: samples of shape {values.shape[1:]} hold no numbers")


def numbered(ids: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Ids `[n]` -> (client number of every row, names by number): client k is the k-th smallest id."""
    try:
        known, code = np.unique(ids, return_inverse=True)
    except TypeError as error:
        raise DataError(f"client: ids that cannot be sorted: {error}") from None
    if known.dtype.kind == "S":
        known = np.char.decode(known, "utf-8")
    names = [name if isinstance(name, int | float) else str(name) for name in known.tolist()]
    return code.astype(np.int32), names


def classes_named(arrays: Arrays) -> tuple[Arrays, tuple[str, ...] | None]:
    """Text labels as the places of their names among all of them, sorted by code points; numbers stay, without names.

    Raises:
      DataError: for samples without a label, and for names of anything that are no text in UTF-8.
    """
    _require_sound_names(arrays)
    y = np.asarray(arrays.y)
    if y.dtype.kind not in "UTO" or y.ndim != 1:
        return arrays, None if arrays.labels is None else tuple(map(str, arrays.labels))
    labels = [_texts("y", y)]
    if arrays.y_test is not None and len(y_test := np.asarray(arrays.y_test)):
        labels.append(_texts("y_test", y_test))
    _require_classes(np.concatenate(labels))
    names, code = np.unique(np.concatenate(labels), return_inverse=True)
    split = {"y": code[: len(y)], "y_test": code[len(y) :] if len(labels) > 1 else None}
    return arrays._replace(**split), tuple(names.tolist())


def _require_sound_names(arrays: Arrays) -> None:
    """Refuse names of classes, clients, features and further columns that no table can hold.

    Raises:
      DataError: naming the row, class or column.
    """
    for name in ("y", "y_test", "client", "client_test"):
        values = getattr(arrays, name)
        if values is not None:
            require_sound(name, np.asarray(values))
    require_sound("labels", () if arrays.labels is None else arrays.labels, "class")
    require_sound("features", () if arrays.features is None else arrays.features, "column")
    columns = arrays.columns or {}
    require_sound("columns", list(columns), "column")
    for name, values in columns.items():
        require_sound(f"column {name[:40]!a}", np.asarray(values))


def _texts(name: str, labels: np.ndarray) -> np.ndarray:
    """Text labels `[n]`, none of them empty."""
    if labels.ndim != 1 or labels.dtype.kind not in "UTO":
        raise DataError(f"{name}: labels of {labels.dtype} {labels.shape}, those of y are text [n]")
    for row, label in enumerate(labels.tolist()):
        if label is None or label != label or label == "":
            raise DataError(f"{name}: row {row} has no label")
        if not isinstance(label, str):
            raise DataError(
                f"{name}: row {row} has label {label!a:.40}; all labels are text or numbers"
            )
    return labels.astype(str)


def _features(
    name: str,
    x: np.ndarray,
    shape: tuple,
    rows: int,
    dtype: np.dtype | None,
    blanks: bool,
    vocabulary: int,
) -> np.ndarray:
    if len(x) != rows:
        raise DataError(f"{name} has {len(x)} rows, {name.replace('x', 'y', 1)} has {rows}")
    if x.shape[1:] != shape:
        raise DataError(f"{name}: samples of shape {x.shape[1:]}, x has {shape}")
    if x.dtype.kind not in "fiub":
        raise DataError(f"{name}: numbers are needed, found {x.dtype}")
    if vocabulary:
        return _tokens(name, x, vocabulary)
    return _finite(name, x, np.dtype(np.uint8) if x.dtype == np.uint8 else dtype, blanks)


def _tokens(name: str, x: np.ndarray, vocabulary: int) -> np.ndarray:
    if x.dtype.kind not in "iu" or x.ndim != 2:
        raise DataError(f"{name}: tokens are integers [n, T], found {x.dtype} {x.shape}")
    beyond = (x < 0) | (x >= vocabulary)
    if beyond.any():
        row, place = np.argwhere(beyond)[0]
        text = f"has token {x[row, place]} at place {place}; tokens are 0 to {vocabulary - 1}"
        raise DataError(f"{name}: row {row} {text}")
    return np.ascontiguousarray(x, np.int32)


def _labels(
    name: str, y: np.ndarray, shape: tuple, regression: bool, dtype: np.dtype | None
) -> np.ndarray:
    if regression:
        if y.dtype.kind not in "fiub" or y.shape[1:] != shape:
            raise DataError(
                f"{name}: targets of {y.dtype} {y.shape[1:]}, those of y are floats {shape}"
            )
        return _finite(name, y, dtype)
    if y.dtype.kind not in "iub" or y.ndim not in (1, 2) or y.shape[1:] != shape:
        needed = f"[n, {shape[0]}]" if shape else "[n], or [n, T] for tokens,"
        raise DataError(f"{name}: integer labels {needed} are needed, found {y.dtype} {y.shape}")
    least, none = (-1, ", -1: no label") if y.ndim == 2 else (0, "")
    for bad, rule in ((y < least, f", ...{none}"), (y >= MOST_CLASSES, ", ..., numbered closely")):
        if bad.any():
            row = int(bad.reshape(len(y), -1).any(1).argmax())
            label = y[row] if y.ndim == 1 else y[row][bad[row]][0]
            raise DataError(f"{name}: row {row} has label {label}; classes are 0, 1, 2{rule}")
    if y.ndim == 2 and len(y) and y.max() < 0:
        raise DataError(f"{name}: no token has a label, all are -1")
    return np.ascontiguousarray(y, np.int32)


def _finite(
    name: str, values: np.ndarray, dtype: np.dtype | None, blanks: bool = False
) -> np.ndarray:
    """Values as `dtype`, those in a file as they lie; what is no finite number there is named."""
    if dtype == np.uint8:
        stored: Any = Mapped(values) if in_file(values) else np.ascontiguousarray(values)
        return stored
    if in_file(values) and not blanks:
        return _finite_in_file(name, values, dtype)
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(values, dtype)
    sound = np.isfinite(cast)
    if blanks:
        sound |= np.isnan(cast)
    if not sound.all():
        bad = ~sound.reshape(len(cast), -1).all(1)
        row = int(bad.argmax())
        why = (
            f"does not fit {np.dtype(dtype)}" if np.isfinite(values[row]).all() else "is not finite"
        )
        raise DataError(f"{name}: row {row} {why} ({int(bad.sum())} rows in all)")
    return cast


def _finite_in_file(name: str, values: np.ndarray, dtype: np.dtype | None) -> Any:
    mapped, first = Mapped(values, None, dtype), 0
    with np.errstate(over="ignore"):
        for part in chunks(mapped):
            sound = np.isfinite(part).reshape(len(part), -1).all(1)
            if not sound.all():
                row = first + int((~sound).argmax())
                raise DataError(f"{name}: row {row} is not finite, or does not fit {mapped.dtype}")
            first += len(part)
    return mapped


def _ids(name: str, client: np.ndarray, rows: int) -> np.ndarray:
    ids = np.asarray(client)
    if ids.ndim != 1:
        raise DataError(f"{name}: one id per sample is needed, found an array of shape {ids.shape}")
    if len(ids) != rows:
        raise DataError(f"{name}: {len(ids)} ids for {rows} samples")
    if ids.dtype.kind == "f" and not np.isfinite(ids).all():
        raise DataError(f"{name}: row {int((~np.isfinite(ids)).argmax())} has no id")
    return ids
