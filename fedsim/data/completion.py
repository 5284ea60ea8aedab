"""Features without blanks and on one scale, by statistics of the training samples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays, validate, vocabulary_of

ROWS = 1 << 16  # that are completed at a time
MAX_NAMED = 20  # blank features that an error names
WIDE = 1000  # times the range of the narrowest feature: a range beyond that deserves a remark


class Completion(NamedTuple):
    """What is done to features before training; see `data.missing` and the keys beside it."""

    missing: str = "refuse"  # refuse, drop, mean, median, or constant
    standardize: bool = False  # bring features to one scale, by mean and standard deviation
    statistics: str = "all"  # of `all` clients, or of the `client` itself
    indicators: bool = False  # add a feature for each with blanks: 1 where it is blank
    fill: float = 0.0  # the constant

    @property
    def fills(self) -> bool:
        """Whether blanks are filled in."""
        return self.missing in ("mean", "median", "constant")

    @property
    def changes_features(self) -> bool:
        """Whether features depend on statistics of the training samples."""
        return self.standardize or self.fills


class Statistics(NamedTuple):
    """What becomes of each feature: (x, or `fill` if it is blank) less `centre`, times `factor`.

    They are `[F]`; or `[N + 1, F]` of each client and, last, of all. Where `fill` is NaN, blanks
    stay blank. Of the features `indicators` `[I]`, a further one says where they are blank.
    """

    fill: np.ndarray
    centre: np.ndarray
    factor: np.ndarray
    indicators: np.ndarray = np.zeros(0, np.int64)

    @property
    def by_client(self) -> bool:
        """Whether each client has its own."""
        return self.fill.ndim == 2

    def of(self, clients: Any) -> "Statistics":
        """Return those of a client (−1: of all), or of the client of every row `[n]`."""
        if not self.by_client:
            return self
        return self._replace(
            fill=self.fill[clients], centre=self.centre[clients], factor=self.factor[clients]
        )


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
    return None if values is None else np.asarray(values)[rows]


def as_numbers(arrays: Arrays) -> Arrays:
    """Return the samples with their features multiplied by their scale; tokens are refused."""
    if vocabulary_of(arrays):
        raise DataError(
            "x holds tokens, which have no mean and no scale; remove standardize and missing"
        )
    if arrays.scale == 1.0:
        return arrays

    x = np.asarray(arrays.x) * arrays.scale
    x_test = None if arrays.x_test is None else np.asarray(arrays.x_test) * arrays.scale
    return arrays._replace(x=x, x_test=x_test, scale=1.0)


def completed(
    arrays: Arrays,
    statistics: Statistics,
    dtype: np.dtype,
    owner: np.ndarray | None = None,
    owner_test: np.ndarray | None = None,
) -> Arrays:
    """Fill blanks in and bring features to one scale, by statistics of the training samples.

    Samples are checked and in float64; features and targets become `dtype`. The client of every
    row and of every test row is needed for statistics of each client.
    """
    x = completed_features(arrays.x, statistics, dtype, owner)
    x_test = None
    if arrays.x_test is not None:
        x_test = completed_features(arrays.x_test, statistics, dtype, owner_test)
    if len(statistics.indicators) and arrays.features is not None:
        blank = [f"{arrays.features[j]} is blank" for j in statistics.indicators]
        arrays = arrays._replace(features=(*arrays.features, *blank))
    return validate(arrays._replace(x=x, x_test=x_test), dtype)[0]


def statistics_of_clients(
    x: np.ndarray, rows: Sequence[np.ndarray], overall: Statistics, completion: Completion
) -> Statistics:
    """Return the statistics of each client, over its rows, and, last, of all.

    Where a client has no number of a feature `[n, ...]`, NaN where blank, they are those of all.
    """
    # A feature of 0 and 1 among all clients stays as it is, also where a client has one of them.
    stays = (overall.centre == 0) & (overall.factor == 1)
    shape = (len(rows) + 1, len(overall.fill))
    fill, centre, factor = (np.broadcast_to(part, shape).copy() for part in overall[:3])
    flat = x.reshape(len(x), -1)
    for client, own in enumerate(rows):
        known = np.flatnonzero(~np.isnan(flat[own]).all(axis=0))
        part = statistics_of(flat[:, known], own, completion, None, stays[known])
        fill[client, known] = part.fill
        centre[client, known] = part.centre
        factor[client, known] = part.factor
    return Statistics(fill, centre, factor, overall.indicators)


def statistics_of(
    x: np.ndarray,
    train: np.ndarray,
    completion: Completion,
    names: tuple[str, ...] | None,
    stays: np.ndarray | None = None,
) -> Statistics:
    """Return statistics of features `[n, ...]` over the numbers in the training rows, not NaN.

    Standardised features are (x − mean) / standard deviation, with the divisor n. A constant
    feature becomes 0; features that `stays` marks `[F]` stay as they are, by default those that
    take exactly the values 0 and 1.

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
            fill[j] = _filling(known, completion)

        constant = known.min() == known.max()
        binary = np.isin(known, (0, 1)).all() and not constant
        if not completion.standardize or (binary if stays is None else stays[j]):
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


def _filling(known: np.ndarray, completion: Completion) -> float:
    """What is put in place of a feature's blanks, given its other values among the samples."""
    if completion.missing == "constant":
        return completion.fill
    return float(np.median(known) if completion.missing == "median" else known.mean())


def completed_features(
    x: Any, statistics: Statistics, dtype: np.dtype, owner: np.ndarray | None = None
) -> np.ndarray:
    """Return features `[n, ...]` without blanks and on one scale, computed in float64.

    Indicators follow, of features `[n, F]` that have some. The owner of every row `[n]` says which
    client's statistics are taken, where each client has its own.
    """
    indicators = statistics.indicators
    shape = (len(x), x.shape[1] + len(indicators)) if len(indicators) else x.shape
    done = np.empty(shape, dtype)
    with np.errstate(over="ignore"):
        for first in range(0, len(x), ROWS):
            rows = slice(first, first + ROWS)
            part = np.asarray(x[rows], np.float64)
            flat = part.reshape(len(part), -1)  # [rows, F]
            of_rows = statistics.of(-1 if owner is None else owner[rows])
            filled = np.where(np.isnan(flat), of_rows.fill, flat)
            scaled = (filled - of_rows.centre) * of_rows.factor
            if len(indicators):
                done[rows] = np.concatenate([scaled, np.isnan(flat[:, indicators])], axis=1)
            else:
                done[rows] = scaled.reshape(part.shape)
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

    ranges = x.max(0).astype(np.float64) - x.min(0).astype(np.float64)
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
