"""How evenly a model serves the clients: a few numbers of their scores."""

from typing import NamedTuple

import numpy as np


class Evenness(NamedTuple):
    """Of the scores of the clients of one run, each with the same weight."""

    mean: float
    worst_tenth: float  # mean over the tenth of the clients with the worst scores, at least one
    std: float
    gini: float


def evenness(scores: np.ndarray, rising: bool) -> Evenness:
    """Return the numbers of scores that are not negative `[n]`, n > 0."""
    worst_first = np.sort(scores)
    if not rising:
        worst_first = worst_first[::-1]
    tenth = max(len(scores) // 10, 1)
    return Evenness(
        mean=float(scores.mean()),
        worst_tenth=float(worst_first[:tenth].mean()),
        std=float(scores.std()),
        gini=gini(scores),
    )


def gini(values: np.ndarray) -> float:
    """Return the Gini coefficient of values that are not negative `[n]`: Σ|v_i − v_j| / (2 n Σv).

    >>> gini(np.array([1.0, 1.0, 1.0])), gini(np.array([0.0, 0.0, 3.0, 1.0]))
    (0.0, 0.625)
    """
    n = len(values)
    total = values.sum()
    if not total:  # all are 0, and so equal
        return 0.0

    # Σ_i (2i − n − 1) v_(i) / (n Σ v), values in ascending order
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float((weights * np.sort(values)).sum() / (n * total))
