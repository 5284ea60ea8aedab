"""Scores of probabilities, the softmax of the outputs."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.fields.metrics.metric import Metric, metric
from fedsim.fields.metrics.samples import Samples


@metric
def brier() -> Metric:
    """Brier score: the mean squared distance of the probabilities from the class, Σ_k (p_k − y_k)².

    Of two classes half of it, (p − y)², as is usual.

    References:
      Brier 1950, Verification of Forecasts Expressed in Terms of Probability,
      doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2.
    """

    def of(samples: Samples) -> float:
        distances = samples.probabilities.copy()
        distances[samples.targets, np.arange(len(samples.targets))] -= 1
        halved = 2 if samples.classes == 2 else 1
        return samples.mean(np.sum(distances**2, axis=0)) / halved

    return Metric(of, probabilities=True)


@metric
def ece(bins: Annotated[int, Ge(1)] = 15) -> Metric:
    """Expected calibration error, Σ_b |B_b|/n |acc_b − conf_b|, of confidence and accuracy.

    The bins B_b are of equal width in the largest probability of a sample.

    Args:
      bins: number of bins; the upper end of each belongs to it.

    References:
      Guo, Pleiss, Sun, Weinberger 2017, On Calibration of Modern Neural Networks, ICML 2017,
      arXiv:1706.04599, equation 3.
    """

    def of(samples: Samples) -> float:
        confidence = samples.probabilities.max(axis=0)
        surplus = confidence - (samples.decisions == samples.targets)
        weights = np.ones(len(surplus)) if samples.weights is None else samples.weights
        of_bin = np.ceil(confidence * bins).astype(np.int64)
        return float(np.abs(np.bincount(of_bin, weights * surplus)).sum() / weights.sum())

    return Metric(of, probabilities=True)


@metric
def log_loss() -> Metric:
    """Mean of −ln p of the class: the cross-entropy of the softmax, in float64.

    References:
      Good 1952, Rational Decisions, doi:10.1111/j.2517-6161.1952.tb00104.x.
    """
    return Metric(_log_loss, probabilities=True, tokens=True)


@metric
def bits_per_token() -> Metric:
    """The `log_loss` in bits, the mean of −log₂ p: what a token takes behind an ideal code.

    References:
      Shannon 1951, Prediction and Entropy of Printed English,
      doi:10.1002/j.1538-7305.1951.tb01366.x.
    """
    return Metric(lambda samples: _log_loss(samples) / np.log(2), probabilities=True, tokens=True)


def _log_loss(samples: Samples) -> float:
    return -samples.mean(samples.log_probabilities)
