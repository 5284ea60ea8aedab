"""Scores beside what they cost: the rows of a group, the front of those that no other one beats in
both, and the target.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fedsim.report.about import About
from fedsim.report.results import Row
from fedsim.study.cost_axes import WAYS, Axis
from fedsim.study.costs import cost, direction, front_of, groups, name_of, ordered, reference_of
from fedsim.study.summary import is_share

WIDE = 10.0  # the most over the fewest, from which on their axis is logarithmic


class Point(NamedTuple):
    """A method, or what it chose to send, among those that are compared.

    Attributes:
      number: beside its point, and in the legend; those of the front first.
      name: in the legend.
      row: of the table.
      cost: in the way in which rows differ.
      low: lower end of the interval of its mean, within shares; None where there is none.
      high: upper end.
      front: whether no other one beats it in score and cost.
      median: of what was spent to the target; None where it is not known or without bound.
      target_low: lower end of its interval; likewise.
      target_high: upper end; infinite where it is without bound.
    """

    number: int
    name: str
    row: Row
    cost: float
    low: float | None
    high: float | None
    front: bool
    median: float | None
    target_low: float | None
    target_high: float | None

    @property
    def mean(self) -> float:
        """Its mean score."""
        return self.row["mean"]

    @property
    def arrived(self) -> str:
        """Seeds that reached the target: `3 of 6`."""
        return f"{self.row['reached']:.0f} of {self.row['seeds']:.0f}"


class CostPicture(NamedTuple):
    """The rows of one variation beside what is compared.

    Attributes:
      axis: what is counted.
      title: what varies beside what is compared, in words.
      way: in which rows differ; empty where they do not.
      points: those of the front first.
      reference: the row that the others are measured by.
      front: cost and score along the front, those that cost least first.
      label: of the axis of costs.
      log: whether that is logarithmic.
      metric: that is scored.
      seeds: how many there are.
    """

    axis: Axis
    title: str
    way: str
    points: list[Point]
    reference: Row
    front: list[tuple[float, float]]
    label: str
    log: bool
    metric: str
    seeds: int

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw: two rows or more that differ in what they cost."""
        return bool(self.way) and len(self.points) > 1

    @property
    def aimed(self) -> bool:
        """Whether what is drawn is what was spent to the target: half of the runs of some row
        reached it.
        """
        return self.axis.equal and any(point.median is not None for point in self.points)

    @property
    def finite(self) -> list[Point]:
        """The points with a score that is a number."""
        return [point for point in self.points if math.isfinite(point.mean)]

    def corners(self) -> list[tuple[float, float]]:
        """The front as steps: cost and score at each of their corners."""
        steps = (((other[0], one[1]), other) for one, other in pairwise(self.front))
        return [*self.front[:1], *(corner for step in steps for corner in step)]


def cost_pictures(
    axis: Axis, rows: Sequence[Row], baseline: str, about: About
) -> list[CostPicture]:
    """A picture for every variation beside what is compared; its table is there where all cost the
    same too.

    Args:
      axis: what is counted.
      rows: of its table.
      baseline: the method that the others are compared with.
      about: what is shown.
    """
    return [
        _picture(axis, rest, group, baseline, about) for rest, group in groups(axis, rows).items()
    ]


def _picture(
    axis: Axis, rest: str, group: Sequence[Row], baseline: str, about: About
) -> CostPicture:
    way = direction(axis, group)
    points = [
        _point(axis, number, name_of(axis, row, group, about.words), row, way)
        for number, row in enumerate(ordered(group, way), 1)
    ]
    finite = [point.row for point in points if math.isfinite(point.mean)]
    spent = [cost(row, way) for row in finite] if way else []
    return CostPicture(
        axis=axis,
        title=about.words(rest) if rest else "",
        way=way,
        points=points,
        reference=reference_of(group, baseline, way),
        front=[(sent, row["mean"]) for row, sent in front_of(finite, way)] if way else [],
        label=f"{WAYS[way].words}{WAYS[way].of}" if way else "",
        log=logarithmic(spent),
        metric=str(group[0]["metric"]),
        seeds=max(row["seeds"] for row in group),
    )


def logarithmic(spent: Sequence[float]) -> bool:
    """Whether some cost so much more than others that their axis is logarithmic."""
    return len(spent) > 0 and min(spent) > 0 and max(spent) > WIDE * min(spent)


def _point(axis: Axis, number: int, name: str, row: Row, way: str) -> Point:
    low, high = row["ci_low"], row["ci_high"]
    if low is not None and is_share(str(row["metric"])):
        low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
    median, target_low, target_high = (
        row.get(name) for name in (axis.target, "target_low", "target_high")
    )
    return Point(
        number=number,
        name=name,
        row=row,
        cost=cost(row, way) if way else 0.0,
        low=low,
        high=high,
        front=bool(row.get("front")),
        median=_finite(median),
        target_low=_finite(target_low),
        target_high=target_high,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
