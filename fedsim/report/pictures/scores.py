"""Scores against the only numeric axis of a comparison: what page and figures draw."""

from collections.abc import Sequence

import numpy as np

from fedsim.report.context import Context
from fedsim.report.pictures.curves import Line
from fedsim.report.pictures.looks import STRONG
from fedsim.report.results import Row, metric_of
from fedsim.report.series import FARTHEST
from fedsim.study.breakdown import without_path
from fedsim.study.price import axis_of
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import grouped, is_share, values_of

GEOMETRIC = 20.0  # an axis is logarithmic above that ratio of its largest to its smallest value


def is_geometric(values: Sequence[float]) -> bool:
    """Whether the values of an axis grow by factors, so that it is logarithmic.

    >>> is_geometric([1, 10, 100]), is_geometric([0, 10, 100]), is_geometric([1, 2])
    (True, False, False)
    """
    return min(values) > 0 and max(values) > GEOMETRIC * min(values)


def by_rest(rows: Sequence[Row], path: str) -> dict[str, list[Row]]:
    """The rows of `compare.csv` by what varies apart from the axis."""
    return grouped(rows, key=lambda row: without_path(row["variant"], path))


def drawable(rows: Sequence[Row]) -> list[Row]:
    """The rows of `compare.csv` with a mean that fits on an axis; a run that diverged has none."""
    return [row for row in rows if row["mean"] is not None and abs(row["mean"]) <= FARTHEST]


def score_lines(rows: Sequence[Row], context: Context) -> list[Line]:
    """The mean scores of methods along the axis, with Student's 95 % interval of strong ones."""
    path = str(axis_of(context.scenario))
    by_method = grouped(sorted(rows, key=lambda row: row[path]), key=lambda row: row["method"])
    lines = []
    for method in context.ordered([*by_method]):
        drawn = drawable(by_method[method])
        mean = np.array(values_of(drawn, "mean"), float)
        half = np.array([_half_interval(row) for row in drawn])
        low = high = None
        if context.rank_of(method) < STRONG and half.any():
            low = mean - half
            high = mean + half
            if is_share(metric_of(drawn)):
                low = np.clip(low, 0, 1)
                high = np.clip(high, 0, 1)
        x = np.array(values_of(drawn, path), float)
        lines.append(Line(method, context.rank_of(method), x, mean, low, high))
    return lines


def _half_interval(row: Row) -> float:
    """Half of Student's 95 % interval of a mean; 0 where there is none."""
    if not row["sd"]:
        return 0.0
    return half_width_of(row["sd"], row["seeds"])
