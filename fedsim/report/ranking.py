"""The order of methods in tables and legends: the baseline, then the best first."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.results import grouped_by, metric_of
from fedsim.study.summary import as_loss, distinct, is_federated, larger_is_better, values_of

Row = dict[str, Any]


def order_of(summary: Sequence[Row], baseline: str | None, score: str) -> list[str]:
    """Methods by rank: the baseline, then by mean rank over the variations, the best first.

    Where nothing varies that is the order of the mean scores. A method without a score in a
    variation ranks last there. Methods that are not federated are at the end.

    >>> scores = {"a": 0.5, "b": 0.9, "c": 0.7}
    >>> rows = [{"method": m, "metric": "test_accuracy", "final": s} for m, s in scores.items()]
    >>> order_of(rows, "a", "final"), order_of(rows, None, "final")
    (['a', 'b', 'c'], ['b', 'c', 'a'])
    """
    rising = larger_is_better(metric_of(summary))
    methods = distinct(summary, "method")
    ranks: dict[str, list[float]] = {}
    for group in grouped_by(summary, "variant").values():
        losses = dict.fromkeys(methods, math.inf)
        losses |= _losses(group, score, rising)
        for method in methods:
            ranks.setdefault(method, []).append(_rank(losses, method))
    outside = {row["method"] for row in summary if not is_federated(row)}

    def position(method: str) -> tuple[bool, bool, float]:
        return method != baseline, method in outside, statistics.fmean(ranks[method])

    return sorted(methods, key=position)


def all_methods(
    summary: Sequence[Row], tables: Sequence[pd.DataFrame | None], baseline: str | None, score: str
) -> list[str]:
    """All methods in the one order of every picture; those without a score are last.

    Args:
      tables: others with a column `method`, which may name more methods; None: there is no such
        table.
    """
    methods = order_of(summary, baseline, score)
    for table in tables:
        if table is not None:
            methods += [str(method) for method in table["method"].unique()]
    return list(dict.fromkeys(methods))


def _losses(runs: Sequence[Row], score: str, rising: bool) -> dict[str, float]:
    """The mean scores of methods under one variation, as numbers that are smaller if better.

    Methods without a score are left out.
    """
    losses = {}
    for (method,), method_runs in grouped_by(runs, "method").items():
        values = values_of(method_runs, score)
        if values:
            losses[method] = as_loss(statistics.fmean(values), rising)
    return losses


def _rank(losses: Mapping[str, float], method: str) -> float:
    """The rank of a method, 1 for the smallest loss; equal ones share the mean of their ranks."""
    loss = losses[method]
    smaller = sum(other < loss for other in losses.values())
    equal = sum(other == loss for other in losses.values())
    return smaller + (equal + 1) / 2
