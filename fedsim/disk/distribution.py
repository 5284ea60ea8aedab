"""How a score is distributed over clients."""

import numpy as np

from fedsim.disk.scores import larger_is_better


def distribution(name: str, values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Return how a score is distributed over clients: seven columns that begin with its name.

    `mean` counts every client once and `samples` every sample; the others are quantiles, the worst
    client, and the standard deviation over clients. Clients without samples have no score.

    Args:
      values: the score of every client `[N]`.
      weights: samples that it is the score of `[N]`.

    >>> columns = distribution("mae", np.array([1.0, 3.0, 7.0]), np.array([1, 3, 0]))
    >>> [columns[f"mae_{name}"] for name in ("mean", "samples", "p50", "worst", "std")]
    [2.0, 2.5, 2.0, 3.0, 1.0]
    """
    scored = weights > 0
    values = values[scored]
    if not len(values):
        return {}
    p10, p50, p90 = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return {
        f"{name}_mean": float(values.mean()),
        f"{name}_samples": float(np.average(values, weights=weights[scored])),
        f"{name}_p10": p10,
        f"{name}_p50": p50,
        f"{name}_p90": p90,
        f"{name}_worst": worst_of(name, values),
        f"{name}_std": float(values.std()),
    }


def worst_of(metric: str, values: np.ndarray) -> float:
    """Return the worst of several values of a metric."""
    return float(values.min() if larger_is_better(metric) else values.max())
