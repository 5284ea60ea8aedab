"""Scores of outputs that are numbers; of several targets, as said."""

from collections.abc import Callable
from typing import Annotated

import numpy as np
from annotated_types import Gt, Lt

from fedsim.fields.metrics.metric import Metric, metric
from fedsim.fields.metrics.samples import Samples


@metric
def r2() -> Metric:
    """R² = 1 − Σ(o − y)² / Σ(y − ȳ)²; several targets count together, each by its variance.

    None where all targets are alike.

    References:
      Wright 1921, Correlation and Causation, Journal of Agricultural Research 20(7).
    """

    def of(samples: Samples) -> float | None:
        targets = _columns(samples.targets)
        errors = _columns(samples.outputs) - targets
        spread = targets - np.average(targets, axis=0, weights=samples.weights)
        variance = samples.mean(np.sum(spread**2, axis=1))
        if (targets == targets[0]).all() or not variance:
            return None
        return 1 - samples.mean(np.sum(errors**2, axis=1)) / variance

    return Metric(of, targets="numbers")


@metric
def mae() -> Metric:
    """Mean absolute error, the mean of |o − y| over samples and targets.

    References:
      Willmott and Matsuura 2005, Advantages of the Mean Absolute Error (MAE) over the Root Mean
      Square Error (RMSE) in Assessing Average Model Performance, doi:10.3354/cr030079.
    """
    return _of_errors(np.abs)


@metric
def rmse() -> Metric:
    """Root of the mean squared error, √(mean of (o − y)²); of several targets the mean of theirs.

    References:
      Willmott and Matsuura 2005, Advantages of the Mean Absolute Error (MAE) over the Root Mean
      Square Error (RMSE) in Assessing Average Model Performance, doi:10.3354/cr030079.
    """
    return _of_errors(np.square, np.sqrt)


@metric
def pinball(q: Annotated[float, Gt(0), Lt(1)] = 0.5) -> Metric:
    """Pinball loss of a quantile, the mean of max(q (y − o), (q − 1)(y − o)).

    Args:
      q: the quantile that outputs are meant to be; 0.5, the median, is half of the MAE.

    References:
      Koenker and Bassett 1978, Regression Quantiles, doi:10.2307/1913643.
    """
    return _of_errors(lambda errors: np.maximum(-q * errors, (1 - q) * errors))


def _of_errors(
    size: Callable[[np.ndarray], np.ndarray],
    of_target: Callable[[np.ndarray], np.ndarray] = lambda means: means,
) -> Metric:
    """The mean over targets of a mean over samples.

    Args:
      size: of outputs less targets.
      of_target: what is made of the mean of each target.
    """

    def of(samples: Samples) -> float:
        errors = _columns(samples.outputs) - _columns(samples.targets)
        means = np.average(size(errors), axis=0, weights=samples.weights)
        return float(np.mean(of_target(means)))

    return Metric(of, targets="numbers")


def _columns(values: np.ndarray) -> np.ndarray:
    """Numbers by sample and target `[n, d]`."""
    return np.asarray(values, np.float64).reshape(len(values), -1)
