"""Scores beside what they cost: the methods of a group, their front, and the target.

The front are the methods that no other one beats in both score and cost.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedsim.report.context import Context
from fedsim.report.pictures.rows import Mark, Rows, Span, finite, in_shares, span_of
from fedsim.report.pictures.rows import Row as Line
from fedsim.report.results import Row
from fedsim.study.cost_axes import WAYS, CostAxis
from fedsim.study.costs import (
    comparison_groups,
    cost,
    differing_way,
    front_first,
    front_of,
    name_of,
    reference_of,
)
from fedsim.study.summary import distinct, is_share

# An axis of costs is logarithmic above that ratio of the largest to the smallest.
LOGARITHMIC = 10.0


class Point(NamedTuple):
    """A method, or what it chose to send.

    Attributes:
      number: beside its point and in the legend.
      rank: of its method in the order of the result, which decides its colour; of the point itself,
        where all are of the same method.
      cost: in the way in which rows differ.
      low: lower end of the interval of its mean, within shares; None where there is none.
      median: of what was spent to the target; None where it is unknown or infinite.
      target_low: lower end of its interval; None likewise.
      target_high: upper end; infinite where the interval has no bound.
    """

    number: int
    rank: int
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
        """How many seeds reached the target: `3 of 6`."""
        return f"{self.row['reached']:.0f} of {self.row['seeds']:.0f}"


class CostPicture(NamedTuple):
    """The methods of one variation.

    Attributes:
      title: the variation in words; what is compared is not part of it.
      way: in which rows differ; empty where they do not.
      reference: the row that the others are measured by.
      front: cost and score along the front, from the smallest cost on.
    """

    axis: CostAxis
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
    def shows_target(self) -> bool:
        """Whether what was spent to the target is drawn: half of a method's runs reached it."""
        return self.axis.equal_time and any(point.median is not None for point in self.points)

    @property
    def finite(self) -> list[Point]:
        """The points whose mean score is finite."""
        return [point for point in self.points if math.isfinite(point.mean)]

    def score_ends(self) -> list[list[float]]:
        """The mean score of every finite point, and the ends of its interval."""
        ends = []
        for point in self.finite:
            numbers = (point.mean, point.low, point.high)
            ends.append([number for number in numbers if number is not None])
        return ends


def cost_pictures(
    axis: CostAxis, rows: Sequence[Row], baseline: str, context: Context
) -> list[CostPicture]:
    """A picture for every variation apart from what is compared.

    Where all methods cost the same there is nothing to draw, but there are numbers for a table.
    """
    pictures = []
    for variant, group in comparison_groups(axis, rows).items():
        pictures.append(_picture(axis, variant, group, baseline, context))
    return pictures


def _picture(
    axis: CostAxis, variant: str, group: Sequence[Row], baseline: str, context: Context
) -> CostPicture:
    way = differing_way(axis, group)
    methods = distinct(group, "method")
    context = context.including(methods)
    by_method = sorted(front_first(group, way), key=lambda row: context.rank_of(row["method"]))
    points = []
    for index, row in enumerate(by_method):
        name = name_of(axis, row, group, context.words)
        rank = context.rank_of(row["method"])
        if len(methods) == 1:
            rank = index
        points.append(_point(axis, index + 1, rank, name, row, way))

    with_mean = [point.row for point in points if math.isfinite(point.mean)]
    spent: list[float] = []
    front: list[tuple[float, float]] = []
    label = ""
    if way:
        spent = [cost(row, way) for row in with_mean]
        front = [(row_cost, row["mean"]) for row, row_cost in front_of(with_mean, way)]
        label = f"{WAYS[way].words}{WAYS[way].scope}"
    return CostPicture(
        axis=axis,
        title=context.words(variant) if variant else "",
        way=way,
        points=points,
        reference=reference_of(group, baseline, way),
        front=front,
        label=label,
        log=logarithmic(spent),
        metric=str(group[0]["metric"]),
        seeds=max(row["seeds"] for row in group),
    )


def rows_of_targets(picture: CostPicture, context: Context) -> Rows:
    """What was spent to the target: a row per method, the median with its interval."""
    rows = []
    for point in picture.points:
        all_reached = point.row["reached"] == point.row["seeds"]
        note = "" if all_reached else point.arrived
        mark = _target_mark(picture.axis, point, all_reached)
        rows.append(Line(point.name, note, point.rank, [mark]))
    span = span_of(rows, fixed=[0.0])
    noun = picture.axis.noun
    label = f"{noun} to {context.target_of(picture.metric)}"
    label += ": median and 95 % interval; hollow: not all seeds reached it"
    return Rows([_until_the_end(row, span) for row in rows], span, label)


def _target_mark(cost_axis: CostAxis, point: Point, filled: bool) -> Mark:
    """The median of what was spent to the target."""
    text = "∞"
    if point.median is not None:
        text = cost_axis.tick(point.median)
    return Mark(
        at=point.median,
        low=point.target_low,
        high=point.target_high,
        dots=[],
        filled=filled,
        text=text,
        title=f"{text}, {point.arrived} seeds reached it",
    )


def _until_the_end(row: Line, span: Span) -> Line:
    """A row whose interval, where it has no upper end, goes to the end of the axis."""
    (mark,) = row.marks
    if mark.high is None or math.isfinite(mark.high):
        return row
    return row._replace(marks=[mark._replace(high=span.high)])


def logarithmic(spent: Sequence[float]) -> bool:
    """Whether some costs are so much larger than others that their axis is logarithmic."""
    return len(spent) > 0 and min(spent) > 0 and max(spent) > LOGARITHMIC * min(spent)


def _point(axis: CostAxis, number: int, rank: int, name: str, row: Row, way: str) -> Point:
    low = row["ci_low"]
    high = row["ci_high"]
    if is_share(str(row["metric"])):
        low, high = in_shares(low, high)
    return Point(
        number=number,
        rank=rank,
        name=name,
        row=row,
        cost=cost(row, way) if way else 0.0,
        low=low,
        high=high,
        front=bool(row.get("front")),
        median=finite(row.get(axis.target)),
        target_low=finite(row.get("target_low")),
        target_high=row.get("target_high"),
    )
