"""Still pictures of curves as SVG.

Colours come from classes, so that dark mode and print choose them. The script of the page draws the
same pictures again at the size of the screen.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.page.svg import element
from fedsim.report.pictures.curves import Curve
from fedsim.report.pictures.cut import beyond, without_outlier

WIDTH = 560
HEIGHT = 300
# margins
LEFT = 54
RIGHT = 14
TOP = 14
BOTTOM = 42


class Course(NamedTuple):
    """A curve, and where its points lie along the lower axis, `[r]`; none where that is unknown."""

    curve: Curve
    x: np.ndarray


class Across(NamedTuple):
    """The lower axis of a chart: its name, and whether it is logarithmic."""

    name: str
    log: bool = False


def height_axis(panels: Sequence[Sequence[Curve]], share: bool) -> Axis:
    """The common axis of all panels of one metric, cut where one method squeezes the others."""
    ends: dict[str, list[float]] = {}  # by method
    for curves in panels:
        for curve in curves:
            of_method = ends.setdefault(curve.name, [])
            of_method += curve.low.tolist()
            of_method += curve.high.tolist()
    return axis(without_outlier([*ends.values()]), HEIGHT - BOTTOM, TOP, share)


def curves_picture(
    courses: Sequence[Course],
    classes: Mapping[str, str],
    label: str,
    across: Across,
    y: Axis,
    chart: int,
    target: float | None = None,
) -> Markup:
    """Curves over the rounds, or what was spent by then, with bands.

    Args:
      courses: in the order of the result; the first is drawn last, above the others.
      classes: the classes of every method's curve.
      label: for readers who cannot see the picture.
      across: the lower axis.
      y: the axis that all pictures of the metric share.
      chart: the number of the picture on the page.
      target: the score to reach, a line across the picture.
    """
    positions = []
    for course in courses:
        for at in course.x.tolist():
            if at > 0 or not across.log:
                positions.append(at)
    x = axis(positions, LEFT, WIDTH - RIGHT, exact=True)._replace(log=across.log)

    last_first = sorted(courses, key=lambda course: course.curve.rank, reverse=True)
    drawn = [_series(course, classes[course.curve.name], x, y) for course in last_first]
    if target is not None:
        label_above = _space_above(y.at(target), _end_heights(courses, x, y))
        line = _target_line(y.at(target))
        drawn = [line, *drawn, _target_label(target, y.at(target), label_above)]

    for curve, positions in courses:
        if len(positions):
            for side in beyond(curve, y.low, y.high):
                drawn.append(_cut_mark(curve.name, side))
    title = across.name
    if across.log:
        title = f"{title}, logarithmic"
    frame = element("rect", x=LEFT, y=TOP, width=WIDTH - LEFT - RIGHT, height=HEIGHT - TOP - BOTTOM)
    clip = f"clip{chart}"
    return element(
        "svg",
        element("clipPath", frame, id=clip),
        *_grid(x, y, title),
        element("g", *drawn, class_="plot", clip_path=f"url(#{clip})"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{label} by {across.name}",
    )


def _series(course: Course, classes: str, x: Axis, y: Axis) -> Markup:
    """The line of a method, above the band between the lowest and the highest seed."""
    curve = course.curve
    drawn = np.full(len(course.x), True)
    if x.log:
        drawn = course.x > 0
    positions = course.x[drawn].tolist()

    def points(values: np.ndarray) -> list[tuple[float, float]]:
        return list(zip(positions, values[: len(drawn)][drawn].tolist(), strict=True))

    elements = []
    if not np.array_equal(curve.low, curve.high):
        outline = path([*points(curve.high), *points(curve.low)[::-1]], x, y)
        if outline:
            outline += "Z"
        elements.append(element("path", class_="band", d=outline))
    elements.append(element("path", class_="line", d=path(points(curve.mean), x, y)))
    return element("g", *elements, class_=f"series {classes}", data_name=curve.name)


def _cut_mark(name: str, side: int) -> Markup:
    """The name of a method whose curve leaves an axis that is cut: above it (1) or below (-1)."""
    arrow = "\N{BLACK DOWN-POINTING TRIANGLE}"
    y = HEIGHT - BOTTOM - 6
    if side > 0:
        arrow = "\N{BLACK UP-POINTING TRIANGLE}"
        y = TOP + 12
    text = f"{arrow} {name} beyond, axis cut"
    return element("text", text, class_="beyond", x=LEFT + 6, y=y)


def _target_line(height: float) -> Markup:
    return element("line", class_="target", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height)


def _target_label(target: float, height: float, above: bool) -> Markup:
    """The target's name at the right end of its line, above or below it."""
    baseline = height - 5 if above else height + 14
    return element(
        "text",
        f"target {target:g}",
        class_="target",
        x=WIDTH - RIGHT - 4,
        y=baseline,
        text_anchor="end",
    )


def _end_heights(courses: Sequence[Course], x: Axis, y: Axis) -> list[float]:
    """The heights of the curves that reach the right end of the picture."""
    right = LEFT + 0.8 * (WIDTH - LEFT - RIGHT)
    heights = []
    for curve, positions in courses:
        if len(positions) and x.at(float(positions[-1])) >= right:
            heights.append(y.at(curve.mean[-1]))
    return heights


def _space_above(height: float, ends: Sequence[float]) -> bool:
    """Whether there is more space above a line than below it, at the right end of the picture.

    Args:
      height: of the line.
      ends: heights of curves.
    """
    above = height - TOP
    below = HEIGHT - BOTTOM - height
    for end in ends:
        if end <= height:
            above = min(above, height - end)
        else:
            below = min(below, end - height)
    return above >= below


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """The `d` of a line through points.

    >>> path([(0, 0), (1, 1)], Axis(0, 1, 0, 10), Axis(0, 1, 10, 0))
    'M0 10L10 0'
    """
    if not points:
        return ""
    corners = [f"{_tenth(x.at(a))} {_tenth(y.at(b))}" for a, b in points]
    return "M" + "L".join(corners)


def _grid(x: Axis, y: Axis, title: str) -> list[Markup]:
    """Both axes with their ticks, and the name of the lower one, which the script changes."""
    labels = []
    for tick in y.ticks():
        height = y.at(tick)
        line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height)
        label = element("text", short(tick), x=LEFT - 6, y=height + 4, text_anchor="end")
        labels.append(element("g", line, label, class_="tick"))
    for tick in x.ticks():
        below = HEIGHT - BOTTOM + 16
        labels.append(element("text", short(tick), x=x.at(tick), y=below, text_anchor="middle"))

    middle = (LEFT + WIDTH - RIGHT) / 2
    name = element("text", title, class_="small name", x=middle, y=HEIGHT - 8, text_anchor="middle")
    return [element("g", *labels, class_="axes"), name]


def _tenth(value: float) -> str:
    """A number rounded to a tenth, as briefly as possible.

    >>> _tenth(1.04), _tenth(-0.04)
    ('1', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    if text == "-0":
        return "0"
    return text
