"""Scores of how outputs rank samples: a class against all others, whatever the threshold."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from fedsim.fields.metrics.metric import Metric, average_of, metric
from fedsim.fields.metrics.samples import Samples


@metric
def auc(
    average: Literal["binary", "macro", "weighted"] | None = None,
    positive: int | str | None = None,
) -> Metric:
    """Area under the ROC curve: how often a sample of a class is ranked above one of another.

    AUC = P(s⁺ > s⁻) + ½ P(s⁺ = s⁻) over pairs of a sample of the class and one of the others, with
    the score s = softmax(outputs) of the class in float64. Where samples count differently, a pair
    counts by the product of both. None where all samples, or none, are of the class.

    Args:
      average: `binary`: one class; `macro`: the mean over the classes, each against the others,
        that have such a score; `weighted`: by how many samples a class has. By default `binary` of
        two classes, else `macro`.
      positive: the class of `binary`, by name or number; by default the second one.

    References:
      Hanley and McNeil 1982, The Meaning and Use of the Area under a Receiver Operating
      Characteristic (ROC) Curve, doi:10.1148/radiology.143.1.7063747.
    """

    def area(positives: np.ndarray, negatives: np.ndarray) -> float:
        below = np.cumsum(negatives) - negatives / 2
        return float(positives @ below)

    def of_class(steps: tuple[np.ndarray, np.ndarray]) -> float | None:
        positives, negatives = steps
        pairs = positives.sum() * negatives.sum()
        return area(positives, negatives) / pairs if pairs else None

    return _one_against_others(of_class, average, positive)


@metric
def average_precision(
    average: Literal["binary", "macro", "weighted"] | None = None,
    positive: int | str | None = None,
) -> Metric:
    """Average precision: the precision at every sample of a class, as thresholds fall.

    AP = Σ_n (R_n − R_{n−1}) P_n with precision P_n and recall R_n of the n-th largest score. None
    where no sample is of the class.

    Args:
      average: as of `auc`.
      positive: the class of `binary`, by name or number; by default the second one.

    References:
      Zhu 2004, Recall, Precision and Average Precision, University of Waterloo, section 3.
    """

    def of_class(steps: tuple[np.ndarray, np.ndarray]) -> float | None:
        positives, negatives = steps
        total = positives.sum()
        if not total:
            return None
        hits = np.cumsum(positives[::-1])
        chosen = hits + np.cumsum(negatives[::-1])
        precision = np.divide(hits, chosen, out=np.zeros_like(chosen), where=chosen > 0)
        return float(positives[::-1] @ precision / total)

    return _one_against_others(of_class, average, positive)


def _one_against_others(
    of_class: Callable[[tuple[np.ndarray, np.ndarray]], float | None],
    average: str | None,
    positive: int | str | None,
) -> Metric:
    """A metric of one class, or its mean over the classes that have it.

    Args:
      of_class: weights of positives and negatives at every score, rising -> the score.
      average: as in the scenario.
      positive: likewise.
    """

    def of(samples: Samples) -> float | None:
        kind = average_of(average, positive, samples.classes)
        if kind == "binary":
            return of_class(steps(samples, samples.number_of(positive)))
        scores = []
        shares = []
        sizes = np.bincount(samples.targets, samples.weights, samples.classes)
        for number in np.flatnonzero(sizes).tolist():
            score = of_class(steps(samples, number))
            if score is not None:
                scores.append(score)
                shares.append(sizes[number] if kind == "weighted" else 1.0)
        return float(np.average(scores, weights=shares)) if scores else None

    return Metric(of, average=average, positive=positive)


def steps(samples: Samples, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of a class, and of all others, at every distinct score, rising."""
    scores = samples.probabilities[number]
    is_of_class = samples.targets == number
    if samples.weights is None:
        # The bits of numbers from 0 to 1 are ordered as they are, and leave one for the class.
        ordered = np.sort(scores.view(np.int64) << 1 | is_of_class)
        scores = ordered >> 1
        positives = np.cumsum(ordered & 1)
        both = np.arange(1, len(scores) + 1)
    else:
        order = np.argsort(scores, kind="stable")
        scores = scores[order]
        weights = samples.weights[order]
        positives = np.cumsum(weights * is_of_class[order])
        both = np.cumsum(weights)
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of equal ones
    positives = np.diff(positives[last], prepend=0).astype(np.float64)
    return positives, np.diff(both[last], prepend=0) - positives
