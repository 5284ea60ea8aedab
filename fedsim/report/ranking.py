"""The order of methods in tables and legends: the baseline, then the best first."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.report.results import by, metric_of
from fedsim.study.summary import is_federated, larger_is_better

Row = dict[str, Any]


def order_of(summary: Sequence[Row], baseline: str | None, score: str) -> list[str]:
    """Methods by rank: the baseline, then by mean rank over the variations, the best first.

    Where nothing varies that is the order of the mean scores. A method without a score in a
    variation ranks last there. Methods that are not federated are at the end.

    Args:
      summary: the rows of `summary.csv`.
      baseline: of a comparison; None for runs.
      score: `final`, `best` or `mean_last_k`.

    >>> scores = {"a": 0.5, "b": 0.9, "c": 0.7}
    >>> rows = [{"method": m, "metric": "test_accuracy", "final": s} for m, s in scores.items()]
    >>> order_of(rows, "a", "final"), order_of(rows, None, "final")
    (['a', 'b', 'c'], ['b', 'c', 'a'])
    """
    rising = larger_is_better(metric_of(summary))
    methods = list(dict.fromkeys(row["method"] for row in summary))
    ranks: dict[str, list[float]] = {method: [] for method in methods}
    for group in by(summary, "variant").values():
        losses = dict.fromkeys(methods, math.inf)
        for (method,), runs in by(group, "method").items():
            values = [run[score] for run in runs if run.get(score) is not None]
            if values:
                mean = statistics.fmean(values)
                losses[method] = -mean if rising else mean
        for method in methods:
            ranks[method].append(_rank(losses, method))
    outside = {row["method"] for row in summary if not is_federated(row)}

    def sort_key(method: str) -> tuple[bool, bool, float]:
        return method != baseline, method in outside, statistics.fmean(ranks[method])

    return sorted(methods, key=sort_key)


def _rank(losses: Mapping[str, float], method: str) -> float:
    """The rank of a method, 1 for the smallest loss; equal ones share the mean of their ranks."""
    loss = losses[method]
    smaller = sum(other < loss for other in losses.values())
    equal = sum(other == loss for other in losses.values())
    return smaller + (equal + 1) / 2
