"""Scores of how outputs rank samples: a class against all others, whatever the threshold."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from fedsim.fields.metrics.metric import Metric, average_of, metric
from fedsim.fields.metrics.ranks import Ranks, WeightedRanks
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
    return _one_against_others(lambda ranks: ranks.share_of_ordered_pairs(), average, positive)


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

    def of_class(ranks: Ranks | WeightedRanks) -> float | None:
        positives, negatives = ranks.steps()
        total = positives.sum()
        if not total:
            return None
        hits = np.cumsum(positives[::-1])
        chosen = hits + np.cumsum(negatives[::-1])
        precision = np.divide(hits, chosen, out=np.zeros_like(chosen), where=chosen > 0)
        return float(positives[::-1] @ precision / total)

    return _one_against_others(of_class, average, positive)


def _one_against_others(
    of_class: Callable[[Ranks | WeightedRanks], float | None],
    average: str | None,
    positive: int | str | None,
) -> Metric:
    """A metric of one class, or its mean over the classes that have it.

    Args:
      of_class: samples ranked by the probability of a class -> the score.
    """

    def of(samples: Samples) -> float | None:
        kind = average_of(average, positive, samples.classes)
        if kind == "binary":
            return of_class(samples.ranks(samples.number_of(positive)))
        scores = []
        shares = []
        sizes = np.bincount(samples.targets, samples.weights, samples.classes)
        for number in np.flatnonzero(sizes).tolist():
            score = of_class(samples.ranks(number))
            if score is not None:
                scores.append(score)
                shares.append(sizes[number] if kind == "weighted" else 1.0)
        return float(np.average(scores, weights=shares)) if scores else None

    return Metric(of, average=average, positive=positive)
