"""Features by statistics of the training samples: blanks filled, scales taken out."""

from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.mapped import chunks

ROWS = 1 << 16  # that are completed at a time
APART = 1000  # times the narrowest feature's range: a wider one deserves a remark


class Statistics(NamedTuple):
    """What is done to each feature, `[F]` each: (x, or `fill` where it is blank) less `centre`, times `factor`."""

    fill: np.ndarray
    centre: np.ndarray
    factor: np.ndarray


def statistics(
    x: np.ndarray, train: np.ndarray, missing: str, standardize: bool, names: tuple[str, ...] | None
) -> Statistics:
    """Statistics of the training samples, of the numbers that are there.

    Standardised is (x − mean) / standard deviation, with the divisor n; a feature that is constant becomes 0, and one that
    is 0 or 1 wherever it is known stays.

    Args:
      x: features `[n, ...]`, blanks NaN.
      train: rows of the training samples.
      missing: `mean` or `median`; anything else where there are no blanks.
      standardize: whether scales are taken out.
      names: of the features, for errors.

    Raises:
      DataError: for features without a number among the training samples.
    """
    flat = x.reshape(len(x), -1)
    F = flat.shape[1]
    fill, centre, factor, empty = np.zeros(F), np.zeros(F), np.ones(F), []
    for j in range(F):
        column = flat[train, j].astype(np.float64)
        known = column[~np.isnan(column)]
        if not len(known):
            empty.append(j)
            continue
        fill[j] = np.median(known) if missing == "median" else known.mean()
        if not standardize or (np.isin(known, (0, 1)).all() and known.min() < known.max()):
            continue
        centre[j], scale = known.mean(), known.std()
        factor[j] = 0.0 if known.min() == known.max() or not scale else 1 / scale
    if empty:
        raise DataError(
            *(
                f"{feature_name(j, names)}: blank in all training samples; leave it out"
                for j in empty[:20]
            )
        )
    return Statistics(fill, centre, factor)


def completed(x: Any, s: Statistics, dtype: np.dtype) -> np.ndarray:
    """Features `[n, ...]` without blanks and on one scale, as `dtype`; computed in float64."""
    done = np.empty(x.shape, dtype)
    with np.errstate(over="ignore"):
        for first in range(0, len(x), ROWS):
            part = np.asarray(x[first : first + ROWS], np.float64)
            flat = part.reshape(len(part), -1)
            flat = (np.where(np.isnan(flat), s.fill, flat) - s.centre) * s.factor
            done[first : first + ROWS] = flat.reshape(part.shape)
    return done


def feature_name(j: int, names: tuple[str, ...] | None) -> str:
    """How a feature is called: by its column, or its place."""
    return f"column {names[j][:40]!a}" if names else f"feature {j}"


def scale_remark(x: Any, names: tuple[str, ...] | None) -> str:
    """A sentence where some feature of the samples ranges over 1,000 times as much as another; else nothing.

    A range, largest less smallest value, does not depend on how rare a value is, as a standard deviation does: features
    that are 0 or 1 and the pixels of an image, mostly 0, have one range.
    """
    if len(x.shape) != 2 or not len(x):
        return ""
    ends = [(part.min(0), part.max(0)) for part in chunks(x)]
    low, high = (np.stack(values).astype(np.float64) for values in zip(*ends, strict=True))
    ranges = high.max(0) - low.min(0)
    known = np.flatnonzero(ranges > 0)
    if not len(known):
        return ""
    wide, narrow = int(known[ranges[known].argmax()]), int(known[ranges[known].argmin()])
    if not ranges[wide] > APART * ranges[narrow]:
        return ""
    far = f"{feature_name(wide, names)} ranges over {ranges[wide]:.3g}, {feature_name(narrow, names)} over {ranges[narrow]:.3g}"
    return f"features differ in scale ({far}), which slows training; try data.standardize: true"
