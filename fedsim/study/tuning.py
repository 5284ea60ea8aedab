"""Tuning with equal budgets: every method gets the same grid, and what it is reported with is chosen on validation data."""

from collections.abc import Sequence

import numpy as np


def best_setting(scores: Sequence[np.ndarray], larger_is_better: bool) -> int:
    """Place of the setting with the best mean score over seeds; of equal ones the first.

    Args:
      scores: of every setting, one score per seed; none of them where it failed.
      larger_is_better: of the score.

    >>> best_setting([np.array([0.8, 0.9]), np.array([0.9, 0.8]), np.array([])], larger_is_better=True)
    0
    """
    worst = -np.inf if larger_is_better else np.inf
    means = [float(np.mean(found)) if len(found) else worst for found in scores]
    return int(np.argmax(means) if larger_is_better else np.argmin(means))


def validation_of(metric: str) -> str:
    """The column that a metric on test data is chosen by.

    >>> validation_of("test_accuracy")
    'validation_accuracy'
    """
    return "validation_loss" if metric.endswith("loss") else "validation_accuracy"
