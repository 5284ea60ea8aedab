"""Labels that are no classes: timestamps and ids, told by counting them."""

import numpy as np

from fedsim.sources.dates import as_days

FEW = 10_000  # classes, which any number of samples may have; more need two samples each on average
ALONE = 100  # samples that may have a label each that no other has
YEARS = (978_307_200, 4_102_444_800)  # seconds since 1970 at the beginning of 2001 and of 2100
UNITS = (1, 10**3, 10**6, 10**9)  # a second in the units that timestamps are counted in
REMEDY = "name the column of the labels as target; for regression, write decimals (5.0)"


def fault_of_classes(labels: np.ndarray) -> str | None:
    """Why labels are no classes that could be learned; None where they may be.

    Classes are as many as the largest whole number says, or as there are texts. There are too many where they are more than
    half of the samples (and more than ten thousand), where each of more than a hundred samples has one of its own, and where
    all of them are dates.

    Args:
      labels: `[n]`, whole numbers from 0 on, or texts, of which empty ones do not count; others are left alone.

    >>> fault_of_classes(np.array([1_714_521_600, 1_714_521_660])).partition(";")[0]
    '2 different whole numbers up to 1,714,521,660 as classes of 2 samples look like timestamps'
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iuU" or not len(labels):
        return None
    known = np.unique(labels)
    if labels.dtype.kind == "U":
        return _fault_of_texts(known[known != ""], len(labels))
    return _fault_of_numbers(known, len(labels))


def _fault_of_numbers(known: np.ndarray, samples: int) -> str | None:
    """Of different whole numbers, rising."""
    most = int(known[-1])
    if not _too_many(most + 1, len(known), samples):
        return None
    meant = (
        "timestamps" if _are_timestamps(int(known[0]), most) else "ids, or numbers to be predicted"
    )
    many = "one whole number" if len(known) == 1 else f"{len(known):,} different whole numbers"
    return f"{many} up to {most:,} as classes of {samples:,} samples look like {meant}; {REMEDY}"


def _fault_of_texts(known: np.ndarray, samples: int) -> str | None:
    """Of different texts."""
    dates = all(as_days(text) is not None for text in known.tolist())
    if not len(known) or not (dates or _too_many(len(known), len(known), samples)):
        return None
    meant = "dates, which are no classes" if dates else "ids"
    many = "one text" if len(known) == 1 else f"{len(known):,} different texts"
    return f"{many} as classes of {samples:,} samples: {meant}; {REMEDY}"


def _too_many(classes: int, different: int, samples: int) -> bool:
    return classes > max(FEW, samples // 2) or different == samples > ALONE


def _are_timestamps(least: int, most: int) -> bool:
    """Whether all numbers lie in this century, counted from 1970 in one of the usual units."""
    return any(YEARS[0] * unit <= least and most < YEARS[1] * unit for unit in UNITS)
