"""Samples in memory, and the checks that they can be learned from."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.classes import fault_of_classes
from fedsim.sources.ids import require_ids
from fedsim.sources.names import require_sound

MAX_CLASSES = 1_000_000
NO_LABEL = -1  # the label of a token that has none
BLANK_CATEGORY = "(blank)"


class TableColumn(NamedTuple):
    """A column of a table, as samples were made of it: what new tables are read by."""

    name: str  # its name
    kind: str = ""  # `numbers`, `dates` or `text`; empty where it is no feature
    # of text, those that are a feature each; `BLANK_CATEGORY` is last
    categories: tuple[str, ...] = ()

    @property
    def titles(self) -> list[str]:
        """The names of its features."""
        if self.kind == "text":
            return [f"{self.name}={category}" for category in self.categories]
        return [self.name] if self.kind else []


class Arrays(NamedTuple):
    """Samples in memory: what every reader returns.

    A sample is a row; for sequences of tokens, one sequence. Where every token has a label, losses
    and accuracies are means over the tokens that have one.

    Args:
      x: features `[n, ...]`; stored as floats, except bytes (uint8) and the integers of tokens.
        Images have an axis of 1, 3 or 4 channels, the last or the first, which then becomes the
        last for all but a network of your own.
      y: labels `[n]` (integers: classes 0, 1, ...; text: class names, numbered in sorted order;
        floats: regression targets `[n, ...]`), or `[n, T]` integers: a label for each of T tokens,
        −1 where there is none.
      client: optional natural partition `[n]`: any ids that can be sorted. Tables show the ids;
        wherever a scenario refers to clients by number, client k has the k-th smallest id.
      x_test: optional test features; without them the share `data.test` of the samples is held out,
        where the scenario writes one.
      y_test: optional test labels.
      client_test: optional ids of the clients that the test samples belong to: under the natural
        partition they are the client's own test samples, and together they are the test set. An id
        may occur here only.
      scale: the factor that turns x into features; left out: 1/255 for the bytes of images,
        `[n, height, width]` or `[n, height, width, channels]` in uint8, else 1.
      vocabulary: if positive, x holds tokens `[n, T]`, integers from 0 to vocabulary − 1. Integer x
        and y of the same shape `[n, T]` are tokens without it.
      labels: optional names of classes 0, 1, ...
      features: optional names of the columns of x `[n, F]`.
      columns: optional further columns `[n]` by name, for partitions.
      table: of a table, its columns as they were read, which `Result.predict` looks up by name.
      remarks: what a user should know of how they were read, a line for each.

    >>> import fedsim
    >>> ids = np.array(["b", "a", "b", "a"])
    >>> ward = fedsim.Arrays(x=np.eye(4), y=np.array([0, 1, 0, 1]), client=ids)
    >>> result = fedsim.run({"name": "own", "rounds": 0, "data": {"test": 0}}, data=ward)
    >>> result.clients[["client", "samples"]].values.tolist()
    [['a', 2], ['b', 2]]
    """

    x: np.ndarray
    y: np.ndarray
    client: np.ndarray | None = None
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    client_test: np.ndarray | None = None
    scale: float | None = None
    vocabulary: int = 0
    labels: Sequence[str] | None = None
    features: Sequence[str] | None = None
    columns: Mapping[str, np.ndarray] | None = None
    table: Sequence[TableColumn] | None = None
    remarks: Sequence[str] = ()


class Names(NamedTuple):
    """Names of the classes, clients and features of samples; None where they are only numbers."""

    labels: tuple[str, ...] | None = None  # by class
    clients: tuple[Any, ...] | None = None  # by client number: text, or increasing integers
    features: tuple[str, ...] | None = None  # by column of x
    table: tuple[TableColumn, ...] | None = None  # of all columns that a table has


class _Sets(NamedTuple):
    """What training and test samples have in common, as the training samples have it."""

    x_shape: tuple[int, ...]  # of a sample's features
    y_shape: tuple[int, ...]  # of a sample's label
    regression: bool  # whether labels are numbers to predict
    dtype: np.dtype | None  # the float type of features and targets; None keeps theirs
    blanks: bool  # whether features may be NaN
    vocabulary: int  # the number of tokens; 0 where features are numbers


def validate(arrays: Arrays, dtype: np.dtype | None, blanks: bool = False) -> tuple[Arrays, int]:
    """Check samples and return them as the device needs them, with the number of classes.

    Floats of features and targets become `dtype` (None keeps them), and features may be NaN where
    `blanks` says so. The number of classes is 0 for regression.

    Raises:
      DataError: naming the row, for lengths that differ, non-finite numbers, labels that are not
        classes, ids that are missing, and tokens beyond the vocabulary.
    """
    arrays = arrays._replace(vocabulary=vocabulary_of(arrays))
    x = np.asarray(arrays.x)
    y = np.asarray(arrays.y)
    _require_rows("x", x)
    _require_rows("y", y)
    if len(x) == 0:
        raise DataError("x: no samples")
    regression = bool(np.issubdtype(y.dtype, np.floating))
    if y.ndim == 2 and not regression and y.shape != x.shape[:2]:
        expected = "integer labels [n], or [n, T] for sequences of length T"
        remedy = "y.ravel()" if y.shape[1] == 1 else "y.argmax(1) if they are one-hot"
        found = f"found {y.dtype} {y.shape} for x {x.shape}; write {remedy}"
        raise DataError(f"y: expected {expected}; {found}")

    test = _test_set(arrays)
    sets = _Sets(x.shape[1:], y.shape[1:], regression, dtype, blanks, arrays.vocabulary)
    x = _features("x", x, len(y), sets)
    y = _labels("y", y, sets)
    if test is None:
        x_test = np.zeros((0, *sets.x_shape), x.dtype)
        y_test = y[:0]
    else:
        x_test = _features("x_test", test[0], len(test[1]), sets)
        y_test = _labels("y_test", test[1], sets)

    # Bytes in one set and floats in the other: both become floats.
    if dtype is not None and x.dtype != x_test.dtype:
        x = _finite("x", x, np.dtype(dtype))
        x_test = _finite("x_test", x_test, np.dtype(dtype))

    ids = {}
    for name, rows in (("client_test", len(x_test)), ("client", len(x))):
        values = getattr(arrays, name)
        ids[name] = None if values is None else require_ids(name, values, rows)
    arrays = arrays._replace(x=x, y=y, x_test=x_test, y_test=y_test, **ids)
    return arrays, 0 if regression else class_count(arrays, y, y_test)


def is_per_token(y: Any) -> bool:
    """Return whether labels are those of tokens, integers `[n, T]`."""
    return y.ndim == 2 and np.issubdtype(y.dtype, np.integer)


def vocabulary_of(arrays: Arrays) -> int:
    """Return the number of tokens; 0 where features are numbers."""
    x = np.asarray(arrays.x)
    y = np.asarray(arrays.y)
    integers = x.dtype.kind in "iu" and y.dtype.kind in "iu"
    sequences = x.ndim == 2 and x.shape == y.shape and x.size > 0
    if arrays.vocabulary or not (integers and sequences):
        return int(arrays.vocabulary)

    tokens = (arrays.x, arrays.y, arrays.x_test, arrays.y_test)
    largest = max(np.max(values) for values in tokens if values is not None and np.size(values))
    return 1 + int(largest)


def class_count(arrays: Arrays, *labels: np.ndarray) -> int:
    """Return the number of classes: of names, else of tokens to choose from, else of labels.

    Labels are integers `[n]` or `[n, T]`, those of each set of samples. Refused are timestamps,
    ids, and classes beyond those that have names.
    """
    tokens = is_per_token(labels[0])
    if arrays.labels is None and not tokens:  # names show that labels are meant as classes
        _require_classes(np.concatenate(labels))

    classes = 1 + int(max(values.max() for values in labels if values.size))
    names = 0 if arrays.labels is None else len(arrays.labels)
    if 0 < names < classes:
        raise DataError(
            f"labels: {names} names, but y has a class {classes - 1}; classes are 0 to {names - 1}"
        )
    if classes > MAX_CLASSES:
        raise DataError(f"y: {classes:,} classes; at most {MAX_CLASSES:,}, numbered without gaps")
    return max(classes, names, arrays.vocabulary if tokens else 0)


def encode_labels(arrays: Arrays) -> tuple[Arrays, tuple[str, ...] | None]:
    """Replace text labels by the positions of their names in sorted order; return the names too.

    Labels that are numbers stay, with the names that came along. A sample without a label is
    refused, and so are names of anything that are not UTF-8 text.
    """
    _require_sound_names(arrays)
    y = np.asarray(arrays.y)
    if y.dtype.kind not in "UTO" or y.ndim != 1:
        names = None if arrays.labels is None else tuple(map(str, arrays.labels))
        return arrays, names

    labels = [_text_labels("y", y)]
    has_test = arrays.y_test is not None and len(np.asarray(arrays.y_test)) > 0
    if has_test:
        labels.append(_text_labels("y_test", np.asarray(arrays.y_test)))
    all_labels = np.concatenate(labels)
    _require_classes(all_labels)

    names, codes = np.unique(all_labels, return_inverse=True)
    arrays = arrays._replace(
        y=codes[: len(y)],
        y_test=codes[len(y) :] if has_test else None,
    )
    return arrays, tuple(names.tolist())


def with_test_set(arrays: Arrays, n: int) -> Arrays:
    """Keep the first n samples for training, and use the others for testing."""
    arrays = arrays._replace(
        x=arrays.x[:n],
        y=arrays.y[:n],
        x_test=arrays.x[n:],
        y_test=arrays.y[n:],
    )
    ids = arrays.client
    if ids is None:
        return arrays
    return arrays._replace(client=ids[:n], client_test=ids[n:])


def _test_set(arrays: Arrays) -> tuple[np.ndarray, np.ndarray] | None:
    """Test features and test labels; None where there are none, or no rows of any type."""
    for given, absent in (("x_test", "y_test"), ("y_test", "x_test")):
        if getattr(arrays, given) is not None and getattr(arrays, absent) is None:
            raise DataError(f"{given} is given without {absent}")
    if arrays.x_test is None or arrays.y_test is None:
        return None
    x_test = np.asarray(arrays.x_test)
    y_test = np.asarray(arrays.y_test)
    if x_test.shape[:1] == y_test.shape[:1] == (0,):
        return None
    _require_rows("y_test", y_test)
    return x_test, y_test


def _require_classes(labels: np.ndarray) -> None:
    fault = fault_of_classes(labels)
    if fault is not None:
        raise DataError(f"y: {fault}")


def _require_rows(name: str, values: np.ndarray) -> None:
    """Refuse an array that has no axis of rows, or whose rows hold no number."""
    if values.ndim == 0:
        raise DataError(f"{name}: a single number; expected an array with a row for every sample")
    if values.size == 0 and len(values):
        raise DataError(f"{name}: samples of shape {values.shape[1:]} hold no numbers")


def _require_sound_names(arrays: Arrays) -> None:
    """Refuse names of classes, clients, features and further columns that no table can hold."""
    for name in ("y", "y_test", "client", "client_test"):
        values = getattr(arrays, name)
        if values is not None:
            require_sound(name, np.asarray(values))
    if arrays.labels is not None:
        require_sound("labels", arrays.labels, "class")
    if arrays.features is not None:
        require_sound("features", arrays.features, "column")

    columns = arrays.columns or {}
    require_sound("columns", list(columns), "column")
    for name, values in columns.items():
        require_sound(f"column {name[:40]!a}", np.asarray(values))


def _text_labels(name: str, labels: np.ndarray) -> np.ndarray:
    """Return text labels `[n]`, none of them empty."""
    if labels.ndim != 1 or labels.dtype.kind not in "UTO":
        raise DataError(
            f"{name}: labels are {labels.dtype} {labels.shape}, but those of y are text [n]"
        )
    for row, label in enumerate(labels.tolist()):
        if label is None or label != label or label == "":
            raise DataError(f"{name}: row {row} has no label")
        if not isinstance(label, str):
            raise DataError(
                f"{name}: row {row} has label {label!a:.40}; labels are all text, or all numbers"
            )
    return labels.astype(str)


def _features(name: str, x: np.ndarray, rows: int, sets: _Sets) -> np.ndarray:
    """Return features in the type that they are stored in."""
    if len(x) != rows:
        labels = name.replace("x", "y", 1)
        raise DataError(f"{name} has {len(x)} rows, but {labels} has {rows}")
    if x.shape[1:] != sets.x_shape:
        raise DataError(
            f"{name}: samples have shape {x.shape[1:]}, but those of x have {sets.x_shape}"
        )
    if x.dtype.kind not in "fiub":
        raise DataError(f"{name}: expected numbers, found {x.dtype}")

    if sets.vocabulary:
        return _tokens(name, x, sets.vocabulary)
    dtype = np.dtype(np.uint8) if x.dtype == np.uint8 else sets.dtype
    return _finite(name, x, dtype, sets.blanks)


def _tokens(name: str, x: np.ndarray, vocabulary: int) -> np.ndarray:
    if x.dtype.kind not in "iu" or x.ndim != 2:
        raise DataError(f"{name}: tokens are integers [n, T], found {x.dtype} {x.shape}")
    beyond = (x < 0) | (x >= vocabulary)
    if beyond.any():
        row, position = np.argwhere(beyond)[0]
        token = x[row, position]
        raise DataError(
            f"{name}: row {row} has token {token} at position {position}; "
            f"tokens are 0 to {vocabulary - 1}"
        )
    return np.ascontiguousarray(x, np.int32)


def _labels(name: str, y: np.ndarray, sets: _Sets) -> np.ndarray:
    """Return targets as floats, or classes as int32."""
    shape = sets.y_shape
    if sets.regression:
        if y.dtype.kind not in "fiub" or y.shape[1:] != shape:
            raise DataError(
                f"{name}: targets are {y.dtype} {y.shape[1:]}, but those of y are floats {shape}"
            )
        return _finite(name, y, sets.dtype)

    if y.dtype.kind not in "iub" or y.ndim not in (1, 2) or y.shape[1:] != shape:
        expected = f"[n, {shape[0]}]" if shape else "[n], or [n, T] for tokens"
        raise DataError(f"{name}: expected integer labels {expected}; found {y.dtype} {y.shape}")

    of_tokens = y.ndim == 2
    least = NO_LABEL if of_tokens else 0
    _refuse_labels(name, y, y < least, f", {NO_LABEL}: no label" if of_tokens else "")
    _refuse_labels(name, y, y >= MAX_CLASSES, ", numbered without gaps")
    if of_tokens and len(y) and y.max() < 0:
        raise DataError(f"{name}: no token has a label; all labels are {NO_LABEL}")
    return np.ascontiguousarray(y, np.int32)


def _refuse_labels(name: str, y: np.ndarray, wrong: np.ndarray, rule: str) -> None:
    """Name the first of the labels that are marked as wrong, and what classes are besides."""
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        classes = f"classes are 0, 1, 2, ...{rule}"
        raise DataError(f"{name}: row {place[0]} has label {y[place]}; {classes}")


def _finite(name: str, values: Any, dtype: np.dtype | None, blanks: bool = False) -> Any:
    """Return values as `dtype`, and name the first row that is not finite."""
    if dtype == np.uint8:
        return np.ascontiguousarray(values)
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(values, dtype)
    sound = np.isfinite(cast)
    if blanks:
        sound |= np.isnan(cast)
    if not sound.all():
        wrong_rows = np.flatnonzero(~sound.reshape(len(cast), -1).all(axis=1))
        row = int(wrong_rows[0])
        overflowed = np.isfinite(values[row]).all()
        reason = f"does not fit {cast.dtype}" if overflowed else "is not finite"
        raise DataError(f"{name}: row {row} {reason} ({len(wrong_rows)} rows in all)")
    return cast
