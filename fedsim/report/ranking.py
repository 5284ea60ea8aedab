"""The order in which methods stand in tables and legends: the baseline, then the best first."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from fedsim.report.results import by, metric_of
from fedsim.study.summary import larger_is_better

Row = dict[str, Any]


def order_of(summary: Sequence[Row], baseline: str | None, score: str) -> list[str]:
    """Methods as they rank: the baseline, then by mean rank over the variations, 1 the best.

    Where nothing varies that is the order of the mean scores. A method without a score in a variation is the last there.

    Args:
      summary: the rows of `summary.csv`.
      baseline: of a comparison; None of runs.
      score: `final`, `best` or `mean_last_k`.

    >>> rows = [{"method": m, "metric": "test_accuracy", "final": s} for m, s in (("a", 0.5), ("b", 0.9), ("c", 0.7))]
    >>> order_of(rows, "a", "final"), order_of(rows, None, "final")
    (['a', 'b', 'c'], ['b', 'c', 'a'])
    """
    sign = -1 if larger_is_better(metric_of(summary)) else 1
    methods = list(dict.fromkeys(row["method"] for row in summary))
    ranks: dict[str, list[float]] = {method: [] for method in methods}
    for group in by(summary, "variant").values():
        cost = dict.fromkeys(methods, math.inf)
        for (method,), rows in by(group, "method").items():
            values = [row[score] for row in rows if row.get(score) is not None]
            cost[method] = sign * statistics.fmean(values) if values else math.inf
        for method in methods:
            before, alike = (
                sum(pair(c, cost[method]) for c in cost.values())
                for pair in (float.__lt__, float.__eq__)
            )
            ranks[method].append(before + (alike + 1) / 2)
    return sorted(methods, key=lambda method: (method != baseline, statistics.fmean(ranks[method])))
