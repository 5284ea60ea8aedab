"""Features without blanks and on one scale, by statistics of the training samples."""

from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays, validate, vocabulary_of
from fedsim.sources.mapped import chunks, is_memmap

ROWS = 1 << 16  # that are completed at a time
MAX_NAMED = 20  # blank features that an error names
WIDE = 1000  # times the range of the narrowest feature: a range beyond that deserves a remark


class Completion(NamedTuple):
    """What is done to features before training.

    Attributes:
      missing: what happens to features that are NaN: `refuse`; `drop` their samples; or fill in the
        `mean` or the `median` of the training samples.
      standardize: whether features are brought to one scale, by mean and standard deviation.
    """

    missing: str = "refuse"
    standardize: bool = False

    @property
    def fills(self) -> bool:
        """Whether blanks are filled in."""
        return self.missing in ("mean", "median")

    @property
    def changes_features(self) -> bool:
        """Whether features depend on statistics of the training samples."""
        return self.standardize or self.fills


class Statistics(NamedTuple):
    """What becomes of each feature: (x, or `fill` if it is blank) less `centre`, times `factor`.

    All arrays are `[F]`; `fill` is NaN where blanks stay blank.
    """

    fill: np.ndarray
    centre: np.ndarray
    factor: np.ndarray


def without_blanks(arrays: Arrays) -> Arrays:
    """Drop training and test samples with a feature that is NaN."""
    complete = _complete_rows(arrays.x, arrays.y)
    if complete is not None:
        arrays = arrays._replace(
            x=np.asarray(arrays.x)[complete],
            y=np.asarray(arrays.y)[complete],
            client=_rows_of(arrays.client, complete),
        )
        if arrays.columns:
            columns = {name: _rows_of(part, complete) for name, part in arrays.columns.items()}
            arrays = arrays._replace(columns=columns)

    complete = _complete_rows(arrays.x_test, arrays.y_test)
    if complete is not None:
        arrays = arrays._replace(
            x_test=_rows_of(arrays.x_test, complete),
            y_test=_rows_of(arrays.y_test, complete),
            client_test=_rows_of(arrays.client_test, complete),
        )
    return arrays


def _complete_rows(x: Any, y: Any) -> np.ndarray | None:
    """Return which samples have all their features `[n]`; None if none can be NaN.

    None also for samples that are unsound, which are refused when they are checked.
    """
    if x is None or y is None:
        return None
    x = np.asarray(x)
    if x.dtype.kind != "f" or x.shape[:1] != np.shape(y)[:1]:
        return None
    return ~np.isnan(x.reshape(len(x), -1)).any(axis=1)


def _rows_of(values: Any, rows: np.ndarray) -> Any:
    """Return the selected rows of an array that may be missing."""
    return None if values is None else np.asarray(values)[rows]


def as_numbers(arrays: Arrays) -> Arrays:
    """Return the samples with their features in memory and multiplied by their scale.

    Raises:
      DataError: if features are tokens, which have no statistics.
    """
    if vocabulary_of(arrays):
        raise DataError(
            "x holds tokens, which have no mean and no scale; remove standardize and missing"
        )
    if arrays.scale == 1.0:
        return arrays._replace(x=np.array(arrays.x)) if is_memmap(arrays.x) else arrays

    x = np.asarray(arrays.x) * arrays.scale
    x_test = None if arrays.x_test is None else np.asarray(arrays.x_test) * arrays.scale
    return arrays._replace(x=x, x_test=x_test, scale=1.0)


def completed(arrays: Arrays, statistics: Statistics, dtype: np.dtype) -> Arrays:
    """Fill blanks in and bring features to one scale, by statistics of the training samples.

    Args:
      arrays: the samples, checked, in float64.
      statistics: as `statistics_of` returns them.
      dtype: float type of the result, features and targets.
    """
    x = completed_features(arrays.x, statistics, dtype)
    x_test = None
    if arrays.x_test is not None:
        x_test = completed_features(arrays.x_test, statistics, dtype)
    return validate(arrays._replace(x=x, x_test=x_test), dtype)[0]


def statistics_of(
    x: np.ndarray, train: np.ndarray, completion: Completion, names: tuple[str, ...] | None
) -> Statistics:
    """Return statistics of the training samples, over the numbers that are not blank.

    Standardised features are (x − mean) / standard deviation, with the divisor n. A constant
    feature becomes 0; a feature that takes exactly the values 0 and 1 stays as it is.

    Args:
      x: features `[n, ...]`, NaN where blank.
      train: rows of the training samples.
      completion: what is done to features.
      names: names of the features, for errors.

    Raises:
      DataError: for features without a number among the training samples.
    """
    flat = x.reshape(len(x), -1)  # [n, F]
    F = flat.shape[1]
    fill = np.full(F, np.nan)
    centre = np.zeros(F)
    factor = np.ones(F)
    blank: list[int] = []
    for j in range(F):
        column = flat[train, j].astype(np.float64)
        known = column[~np.isnan(column)]
        if not len(known):
            blank.append(j)
            continue
        if completion.fills:
            fill[j] = np.median(known) if completion.missing == "median" else known.mean()

        constant = known.min() == known.max()
        binary = np.isin(known, (0, 1)).all() and not constant
        if not completion.standardize or binary:
            continue
        centre[j] = known.mean()
        deviation = known.std()
        factor[j] = 0.0 if constant or not deviation else 1 / deviation

    if blank:
        blank_names = [feature_name(j, names) for j in blank[:MAX_NAMED]]
        raise DataError(
            *(f"{name}: blank in all training samples; leave it out" for name in blank_names)
        )
    return Statistics(fill, centre, factor)


def completed_features(x: Any, statistics: Statistics, dtype: np.dtype) -> np.ndarray:
    """Return features `[n, ...]` without blanks and on one scale, computed in float64."""
    done = np.empty(x.shape, dtype)
    with np.errstate(over="ignore"):
        for first in range(0, len(x), ROWS):
            part = np.asarray(x[first : first + ROWS], np.float64)
            flat = part.reshape(len(part), -1)  # [rows, F]
            filled = np.where(np.isnan(flat), statistics.fill, flat)
            scaled = (filled - statistics.centre) * statistics.factor
            done[first : first + ROWS] = scaled.reshape(part.shape)
    return done


def feature_name(j: int, names: tuple[str, ...] | None) -> str:
    """Return what a feature is called: its column's name, or its number."""
    return f"column {names[j][:40]!a}" if names else f"feature {j}"


def scale_remark(x: Any, names: tuple[str, ...] | None) -> str:
    """Return a sentence if one feature's range is 1,000 times another's; else an empty string.

    A range, largest minus smallest value, does not depend on how rare a value is, as a standard
    deviation does: binary features and the pixels of an image, which are mostly 0, have one range.
    """
    if len(x.shape) != 2 or not len(x):
        return ""

    lows = []
    highs = []
    for part in chunks(x):
        lows.append(part.min(0))
        highs.append(part.max(0))
    low = np.stack(lows).astype(np.float64).min(0)
    high = np.stack(highs).astype(np.float64).max(0)

    ranges = high - low
    varying = np.flatnonzero(ranges > 0)
    if not len(varying):
        return ""
    wide = int(varying[ranges[varying].argmax()])
    narrow = int(varying[ranges[varying].argmin()])
    if not ranges[wide] > WIDE * ranges[narrow]:
        return ""
    compared = (
        f"{feature_name(wide, names)} ranges over {ranges[wide]:.3g}, "
        f"{feature_name(narrow, names)} over {ranges[narrow]:.3g}"
    )
    return (
        f"features differ in scale ({compared}), which slows training; try data.standardize: true"
    )
