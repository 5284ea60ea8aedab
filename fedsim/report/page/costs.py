"""Scores against what they cost, on the page: a picture, and a table of the numbers."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.cost_table import cost_table
from fedsim.report.page import strips
from fedsim.report.page.folding import Group, by_method
from fedsim.report.page.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from fedsim.report.page.scales import Axis, axis
from fedsim.report.page.strips import Strips, breakable
from fedsim.report.page.svg import element, level_grid
from fedsim.report.pictures.costs import CostPicture, Point, cost_pictures
from fedsim.report.pictures.cut import without_outlier
from fedsim.report.pictures.looks import colour_class
from fedsim.report.results import Row
from fedsim.study.cost_axes import CostAxis
from fedsim.study.summary import in_words, is_share

SPACE = 16  # pixels between two numbers in a picture, at least


class CostPart(NamedTuple):
    """The scores and costs of one variation, as the template takes them.

    Attributes:
      title: the variation in words.
      head: titles of the table's columns.
      groups: its rows; those of a long table by method.
      words: how many of the first columns are words.
      picture: the front; empty where there is none.
      targets: what was spent to the target; None where that is not drawn.
    """

    title: str
    head: list[str]
    groups: list[Group]
    words: int
    picture: Markup
    targets: Strips | None


def cost_parts(
    cost_axis: CostAxis, rows: Sequence[Row], baseline: str, context: Context
) -> list[CostPart]:
    """Table and picture for every variation; no picture where all methods cost the same.

    Args:
      cost_axis: what is counted.
      rows: of its table.
      baseline: the method that the others are compared with.
      context: what is shown.
    """
    pictures = cost_pictures(cost_axis, rows, baseline, context)
    return [_part(picture, context) for picture in pictures]


def differ(part: CostPart) -> bool:
    """Whether the methods of a variation differ in what they cost."""
    return bool(part.picture) or part.targets is not None


def _part(picture: CostPicture, context: Context) -> CostPart:
    head, rows = cost_table(picture)
    words = 2 if picture.way else 1  # the number in the picture, and the method
    for row in rows:
        name, key = row[words - 1]
        row[words - 1] = (breakable(name), key)

    front = Markup("")
    targets = None
    if picture.drawn and picture.shows_target:
        targets = _targets(picture, context)
    elif picture.drawn:
        front = _front(picture)
    methods = [str(point.row["method"]) for point in picture.points]
    groups = by_method(rows, methods, lambda method, rows: f"{method}: {len(rows)} rows")
    return CostPart(picture.title, head, groups, words, front, targets)


def _targets(picture: CostPicture, context: Context) -> Strips:
    """What was spent to the target: a row per method, the median with its interval."""
    ends = []
    for point in picture.points:
        ends.append(_finite([point.median, point.target_low, point.target_high]))
    x = strips.cut_axis(ends, fixed=[0.0])

    rows = []
    for point in picture.points:
        all_reached = point.row["reached"] == point.row["seeds"]
        note = "" if all_reached else point.arrived
        mark = _target_mark(picture.axis, point, x, all_reached)
        rows.append(strips.Line(point.name, note, colour_class(point.rank), [mark]))
    target = context.target_of(picture.metric)
    noun = picture.axis.noun
    label = f"{noun} to {target}: median and 95 % interval; open: not all seeds reached it"
    return strips.marks_picture(rows, x, label)


def _target_mark(cost_axis: CostAxis, point: Point, x: Axis, filled: bool) -> strips.Mark:
    """The median to the target; an interval without an upper end goes to the end of the axis."""
    text = "∞"
    if point.median is not None:
        text = cost_axis.tick(point.median)
    high = point.target_high
    if high is not None and not math.isfinite(high):
        high = x.high
    return strips.Mark(
        at=point.median,
        low=point.target_low,
        high=high,
        dots=[],
        filled=filled,
        text=text,
        title=f"{text}, {point.arrived} seeds reached it",
    )


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _front(picture: CostPicture) -> Markup:
    """A numbered point for every row, and a line along the front."""
    x = _cost_axis(picture)
    y = _score_axis(picture)
    label = f"{picture.label}, logarithmic" if x.log else picture.label

    elements = [_grid(picture.axis, x, y, label)]
    corners = []
    for spent, score in picture.corners():
        shown = min(max(score, y.low), y.high)
        corners.append(f"{x.at(spent):.1f} {y.at(shown):.1f}")
    if corners:
        elements.append(element("path", class_="front", d=f"M{'L'.join(corners)}"))
    numbered = _numbered(picture.finite, x, y)
    for point in reversed(picture.finite):
        elements.append(_point(picture, point, x, y, point.number in numbered))
    return element(
        "svg",
        *elements,
        class_="front",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{in_words(picture.metric)} by {label}",
    )


def _numbered(points: Sequence[Point], x: Axis, y: Axis) -> set[int]:
    """The points whose number has space beside it, those of the front first; the table has all."""
    placed: list[tuple[float, float]] = []
    numbers = set()
    for point in sorted(points, key=lambda point: (not point.front, point.rank)):
        left = float(x.at(point.cost))
        top = float(y.at(point.mean))
        if all(abs(left - a) > SPACE or abs(top - b) > SPACE for a, b in placed):
            placed.append((left, top))
            numbers.add(point.number)
    return numbers


def _cost_axis(picture: CostPicture) -> Axis:
    """From 0; logarithmic where some methods cost much more than others."""
    spent = [point.cost for point in picture.finite]
    least = min(spent)
    most = max(spent)
    if picture.log:
        margin = (most / least) ** 0.05
        return Axis(least / margin, most * margin, LEFT, WIDTH - RIGHT, log=True)
    return Axis(0.0, 1.06 * most or 1.0, LEFT, WIDTH - RIGHT)


def _score_axis(picture: CostPicture) -> Axis:
    spanned = without_outlier(picture.score_ends())
    return axis(spanned, HEIGHT - BOTTOM, TOP, is_share(picture.metric))


def _grid(cost_axis: CostAxis, x: Axis, y: Axis, label: str) -> Markup:
    """Both axes with their ticks, and the name of the lower one."""
    elements = level_grid(y, y.ticks(), LEFT, WIDTH - RIGHT)
    below = HEIGHT - BOTTOM + 16
    for tick in x.ticks():
        text = cost_axis.tick(tick)
        elements.append(element("text", text, x=x.at(tick), y=below, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    elements.append(element("text", label, x=middle, y=HEIGHT - 8, text_anchor="middle"))
    return element("g", *elements, class_="axes")


def _cut_mark(point: Point, x: float, y: Axis, number: float) -> Markup:
    """An arrow at the end of an axis that is cut, with the point's number and its score.

    Args:
      point: whose score, or the end of whose interval, lies beyond.
      x: of the point.
      y: the axis.
      number: that lies beyond.
    """
    if number > y.high:
        arrow = "\N{BLACK UP-POINTING TRIANGLE}"
        height = TOP + 12
    else:
        arrow = "\N{BLACK DOWN-POINTING TRIANGLE}"
        height = HEIGHT - BOTTOM - 6
    return element(
        "text",
        f"{arrow} {point.number}: {point.mean:.3g}, axis cut",
        class_="beyond",
        x=x,
        y=height,
        text_anchor="middle" if x < WIDTH - 100 else "end",
    )


def _point(picture: CostPicture, point: Point, x: Axis, y: Axis, numbered: bool) -> Markup:
    """A method: its point, the interval of its mean, and its number if that has space."""
    cost = x.at(point.cost)
    mean = y.at(point.mean)
    spent = picture.axis.tick(point.cost)

    elements = [element("title", f"{point.name}: {point.mean:.4g} at {spent}")]
    cut = []
    for end in (point.mean, point.low, point.high):
        if end is not None and not y.low <= end <= y.high:
            cut.append(end)
    if cut:
        elements.append(_cut_mark(point, cost, y, cut[0]))
    if point.mean in cut:
        return element("g", *elements, class_="point")

    if point.low is not None and point.high is not None:
        low = y.at(max(point.low, y.low))
        high = y.at(min(point.high, y.high))
        elements.append(element("line", x1=cost, x2=cost, y1=low, y2=high))
    elements.append(element("circle", cx=cost, cy=mean, r="4"))
    if numbered:
        elements.append(element("text", str(point.number), x=cost + 6, y=mean - 5))
    fill = "filled" if point.front else "open"
    return element("g", *elements, class_=f"point {fill} {colour_class(point.rank)}")
