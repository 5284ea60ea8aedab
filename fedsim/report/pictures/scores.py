"""Scores against the only numeric axis of a comparison: what page and figures draw."""

from collections.abc import Sequence

from fedsim.report.results import Row
from fedsim.report.series import FARTHEST
from fedsim.study.breakdown import without_path
from fedsim.study.price import axis_of as axis_of
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import grouped

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


def half_interval(row: Row) -> float:
    """Half of Student's 95 % interval of a mean; 0 where there is none."""
    if not row["sd"]:
        return 0.0
    return half_width_of(row["sd"], row["seeds"])
