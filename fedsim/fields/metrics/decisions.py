"""Scores of decisions: of the class of the largest output, or of the k largest."""

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from fedsim.fields.metrics.metric import Metric, average_of, metric
from fedsim.fields.metrics.samples import Samples


@metric
def f1(
    average: Literal["binary", "macro", "micro", "weighted"] | None = None,
    positive: int | str | None = None,
) -> Metric:
    """F1: the harmonic mean of precision and recall.

    F1 = 2 TP / (2 TP + FP + FN), where the decision is the class of the largest output.

    Args:
      average: `binary`: one class; `macro`: the mean over the classes that are a target or a
        decision; `weighted`: by how many samples a class has; `micro`: of the counts of all classes
        together. By default `binary` of two classes, else `macro`.
      positive: the class of `binary`, by name or number; by default the second one.

    References:
      van Rijsbergen 1979, Information Retrieval, chapter 7.
    """
    return _of_counts(
        lambda c: 2 * c.hits, lambda c: c.decided + c.actual, average=average, positive=positive
    )


@metric
def precision(
    average: Literal["binary", "macro", "micro", "weighted"] | None = None,
    positive: int | str | None = None,
) -> Metric:
    """Precision: how many of the samples that are taken for a class are of it, TP / (TP + FP).

    It is 0 where no sample is taken for a class that some are of.

    Args:
      average: as of `f1`.
      positive: the class of `binary`, by name or number; by default the second one.

    References:
      van Rijsbergen 1979, Information Retrieval, chapter 7.
    """
    return _of_counts(
        lambda c: c.hits, lambda c: c.decided, average=average, positive=positive, undecided=0.0
    )


@metric
def recall(
    average: Literal["binary", "macro", "micro", "weighted"] | None = None,
    positive: int | str | None = None,
) -> Metric:
    """Recall, or sensitivity: how many samples of a class are found, TP / (TP + FN).

    Args:
      average: as of `f1`.
      positive: the class of `binary`, by name or number; by default the second one.

    References:
      van Rijsbergen 1979, Information Retrieval, chapter 7.
    """
    return _of_counts(lambda c: c.hits, lambda c: c.actual, average=average, positive=positive)


@metric
def specificity(
    average: Literal["binary", "macro", "micro", "weighted"] | None = None,
    positive: int | str | None = None,
) -> Metric:
    """Specificity: how many samples of other classes are not taken for a class, TN / (TN + FP).

    Args:
      average: as of `f1`.
      positive: the class of `binary`, by name or number; by default the second one.

    References:
      Yerushalmy 1947, Statistical Problems in Assessing Methods of Medical Diagnosis, Public Health
      Reports 62(40).
    """
    return _of_counts(
        lambda c: c.total - c.decided - c.actual + c.hits,
        lambda c: c.total - c.actual,
        average=average,
        positive=positive,
    )


class Counts:
    """Weights by class `[C]`: `hits`, those that are `decided` for it, and `actual` ones."""

    def __init__(self, samples: Samples):
        confusion = samples.confusion
        self.hits = np.diagonal(confusion)
        self.decided = confusion.sum(axis=0)
        self.actual = confusion.sum(axis=1)
        self.total = confusion.sum()
        self.occurs = np.union1d(samples.targets, samples.decisions)


Part = Callable[[Counts], np.ndarray]


def _of_counts(
    part: Part,
    whole: Part,
    average: str | None,
    positive: int | str | None,
    undecided: float | None = None,
) -> Metric:
    """A share of one class, or its mean over classes, in which 0 of 0 is 0.

    Args:
      part: counts -> what is counted of each class.
      whole: counts -> of how many.
      undecided: the share, 0 of 0, of a class that some samples are of.
    """

    def of(samples: Samples) -> float | None:
        counts = Counts(samples)
        parts = part(counts)
        wholes = whole(counts)
        kind = average_of(average, positive, samples.classes)
        if kind == "binary":
            number = samples.number_of(positive)
            if not wholes[number]:
                return undecided if counts.actual[number] else None
            return float(parts[number] / wholes[number])
        parts = parts[counts.occurs]
        wholes = wholes[counts.occurs]
        if kind == "micro":
            return float(parts.sum() / wholes.sum()) if wholes.sum() else None
        shares = np.divide(parts, wholes, out=np.zeros_like(wholes, float), where=wholes > 0)
        weights = counts.actual[counts.occurs] if kind == "weighted" else None
        return float(np.average(shares, weights=weights))

    return Metric(of, average=average, positive=positive)


@metric
def balanced_accuracy() -> Metric:
    """Balanced accuracy: the mean recall of the classes that samples are of.

    References:
      Brodersen, Ong, Stephan, Buhmann 2010, The Balanced Accuracy and Its Posterior Distribution,
      doi:10.1109/ICPR.2010.764.
    """

    def of(samples: Samples) -> float:
        counts = Counts(samples)
        occurs = counts.actual > 0
        return float(np.mean(counts.hits[occurs] / counts.actual[occurs]))

    return Metric(of)


@metric
def top_k(k: Annotated[int, Ge(1)] = 5) -> Metric:
    """Share of samples whose class is among those of the k largest outputs.

    Of equal outputs, that of the later class counts as larger.

    Args:
      k: less than the number of classes.

    References:
      Russakovsky et al. 2015, ImageNet Large Scale Visual Recognition Challenge, arXiv:1409.0575,
      section 4.
    """

    def of(samples: Samples) -> float:
        of_target = samples.logits[samples.targets, np.arange(len(samples.targets))]
        later = np.arange(samples.classes)[:, None] > samples.targets
        before = (samples.logits > of_target) | (samples.logits == of_target) & later
        return samples.mean(before.sum(axis=0) < k)

    return Metric(of, more_than=k, tokens=True)


@metric
def matthews() -> Metric:
    """Matthews correlation coefficient of classes and decisions.

    With the confusion matrix C, its sum s and trace c, and the sums t_k of classes and p_k of
    decisions: (c s − Σ t_k p_k) / √((s² − Σ p_k²)(s² − Σ t_k²)). It is 0 where all decisions are
    alike, and None where all samples are of one class.

    References:
      Gorodkin 2004, Comparing Two K-Category Assignments by a K-Category Correlation Coefficient,
      doi:10.1016/j.compbiolchem.2004.09.006.
    """

    def of(samples: Samples) -> float | None:
        counts = Counts(samples)
        spread = counts.total**2 - counts.actual @ counts.actual
        decided_spread = counts.total**2 - counts.decided @ counts.decided
        if spread <= 0:
            return None
        if decided_spread <= 0:
            return 0.0
        covariance = counts.hits.sum() * counts.total - counts.actual @ counts.decided
        return float(covariance / np.sqrt(spread * decided_spread))

    return Metric(of)


@metric
def kappa() -> Metric:
    """Cohen's κ: how much more often decisions are right than those drawn in the same shares.

    κ = (p_o − p_e) / (1 − p_e), with the accuracy p_o, and p_e = Σ_k t_k p_k of the shares of
    classes t and of decisions p. None where all of both are one class.

    References:
      Cohen 1960, A Coefficient of Agreement for Nominal Scales, doi:10.1177/001316446002000104.
    """

    def of(samples: Samples) -> float | None:
        counts = Counts(samples)
        expected = counts.actual @ counts.decided / counts.total
        missed = counts.total - counts.hits.sum()
        chance = counts.total - expected
        return float(1 - missed / chance) if chance > 0 else None

    return Metric(of)
