"""Labels that cannot be classes: timestamps and ids, recognised by their number."""

import re

import numpy as np

from fedsim.sources.cells import YEAR_AND_MONTH, days_in

FEW = 10_000  # classes that any number of samples may have; more need two samples each on average
MAX_SINGLES = 100  # samples that may each have a label of their own
REMEDY = "name the column of the labels as target; for regression, write task: regression"


def fault_of_classes(labels: np.ndarray) -> str | None:
    """Return why labels `[n]` cannot be learned as classes; None where they can.

    The number of classes is the largest whole number plus one, or the number of different texts.
    Labels are refused where there are more classes than half the samples (and than ten thousand),
    where each of more than a hundred samples has a label of its own, and where all are dates.
    Empty texts do not count, and labels of other types pass.

    >>> fault_of_classes(np.array([1_714_521_600, 1_714_521_660])).partition(" look")[0]
    '2 different whole numbers up to 1,714,521,660 as classes of 2 samples'
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iuU" or not len(labels):
        return None
    different = np.unique(labels)
    if labels.dtype.kind == "U":
        return _fault_of_texts(different[different != ""], len(labels))
    return _fault_of_numbers(different, len(labels))


def _fault_of_numbers(different: np.ndarray, samples: int) -> str | None:
    """The fault of labels that are numbers, each once and in rising order."""
    largest = int(different[-1])
    if not _too_many(largest + 1, len(different), samples):
        return None
    count = _counted(len(different), "whole number")
    meaning = "timestamps, ids, or numbers to be predicted"
    found = f"{count} up to {largest:,} as classes of {samples:,} samples"
    return f"{found} look like {meaning}; {REMEDY}"


def _fault_of_texts(different: np.ndarray, samples: int) -> str | None:
    if not len(different):
        return None
    dates = _are_dates(different)
    if not dates and not _too_many(len(different), len(different), samples):
        return None
    meaning = "dates, which cannot be classes" if dates else "ids"
    count = _counted(len(different), "text")
    return f"{count} as classes of {samples:,} samples: {meaning}; {REMEDY}"


def _counted(count: int, noun: str) -> str:
    return f"one {noun}" if count == 1 else f"{count:,} different {noun}s"


def _too_many(classes: int, different: int, samples: int) -> bool:
    every_sample_differs = different == samples > MAX_SINGLES
    return classes > max(FEW, samples // 2) or every_sample_differs


def _are_dates(texts: np.ndarray) -> bool:
    if not re.match(YEAR_AND_MONTH, texts[0]):
        return False
    import pandas as pd

    return not np.isnan(days_in(pd.Series(texts.tolist(), dtype="str"))).any()
