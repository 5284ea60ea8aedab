"""Pictures with a row per method: a name, marks on a strip of a common axis, and a number.

Positions are percentages of the strip's width, so that the text keeps its size on a phone too.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from fedsim.report.page.scales import Axis, axis
from fedsim.report.page.svg import element
from fedsim.report.pictures.cut import without_outlier
from fedsim.report.pictures.short import short

# of an axis, in percent of the strip
BEGIN = 1.5
END = 98.5
FEW_TICKS = 3  # that have space on any screen
SHAPES = (
    element("circle", r="5"),
    element("rect", x="-4.5", y="-4.5", width="9", height="9"),
    element("path", d="M0-6.2L6.2 0L0 6.2L-6.2 0Z"),
    element("path", d="M0-6L5.6 4H-5.6Z"),
)


class Mark(NamedTuple):
    """A number with its interval, and the numbers that it is the mean of.

    Attributes:
      at: the number; None where there is none to draw.
      low: lower end of its interval; None where there is none.
      high: upper end.
      dots: the numbers behind it.
      filled: whether it is filled, or open.
      text: beside the strip.
      title: what a pointer on the mark, or a screen reader, tells.
    """

    at: float | None
    low: float | None
    high: float | None
    dots: Sequence[float]
    filled: bool
    text: str
    title: str


class Line(NamedTuple):
    """What a row of a picture shows.

    Attributes:
      name: of the method.
      note: behind the name.
      colour: class of the method's colour.
      marks: of the row; the position of a mark decides its shape.
    """

    name: str
    note: str
    colour: str
    marks: Sequence[Mark]


class Row(NamedTuple):
    """A row of a picture, as the template takes it."""

    name: Markup
    note: str  # behind the name
    colour: str
    picture: Markup
    texts: list[str]  # a number per mark


class Strips(NamedTuple):
    """A picture, as the template takes it."""

    rows: list[Row]
    back: Markup  # lines through all rows
    foot: Markup  # numbers of the axis
    label: str  # of the axis
    keys: list[tuple[Markup, str]]  # symbols and their meaning


def empty_mark(title: str, text: str = "") -> Mark:
    """A mark without a number."""
    return Mark(at=None, low=None, high=None, dots=[], filled=False, text=text, title=title)


def marks_picture(
    rows: Sequence[Line],
    x: Axis,
    label: str,
    lines: Sequence[tuple[float, str]] = (),
    keys: Sequence[tuple[Markup, str]] = (),
) -> Strips:
    """A picture with a row per name; the marks of a row lie below each other.

    Args:
      rows: of the methods.
      x: the axis, in percent.
      label: of the axis.
      lines: through all rows: number, and class.
      keys: symbols and their meaning.
    """
    if x.log:
        label += ", logarithmic"
    beyond = []
    for line in rows:
        for number in numbers_of(line.marks):
            if _is_beyond(number, x):
                beyond.append((line.name, number))
    return Strips(
        rows=[_row(line, x) for line in rows],
        back=_lines(x, lines),
        foot=_foot(x),
        label=label,
        keys=[*keys, *_cut_keys(beyond, x)],
    )


def _is_beyond(number: float | None, x: Axis) -> bool:
    """Whether a number lies beyond an axis that is cut."""
    return number is not None and not x.low <= number <= x.high


def _cut_keys(beyond: Sequence[tuple[str, Any]], x: Axis) -> list[tuple[Markup, str]]:
    """What the legend says of an axis that is cut: that it is, and what lies beyond.

    Args:
      beyond: names, and numbers beyond the axis.
      x: the axis.
    """
    names: dict[int, list[str]] = {}  # by side
    for name, number in beyond:
        names.setdefault(_side(number, x), []).append(name)
    keys = []
    for side, there in names.items():
        arrow = element("g", _arrow(side), class_="mark filled", transform="translate(8 7)")
        sign = element("svg", arrow, width="16", height="14", aria_hidden="true")
        keys.append((sign, f"axis cut: {', '.join(dict.fromkeys(there))} beyond it"))
    return keys


def _side(number: float, x: Axis) -> int:
    """On which side of an axis a number lies that is beyond it: -1 left, 1 right."""
    return 1 if number > x.high else -1


def _arrow(side: int) -> Markup:
    """The mark of a number beyond the axis, to the left of it (-1) or to the right (1)."""
    return element("path", class_="beyond", d=f"M{-5 * side}-5L{5 * side} 0L{-5 * side} 5Z")


def _row(line: Line, x: Axis) -> Row:
    drawn = []
    for kind, mark in enumerate(line.marks):
        height = 100 * (kind + 0.5) / len(line.marks)
        drawn.append(_mark(mark, kind, x, height))
    titles = "; ".join(mark.title for mark in line.marks)
    picture = _strip(drawn, f"{line.name}: {titles}")
    texts = [mark.text for mark in line.marks]
    return Row(breakable(line.name), line.note, line.colour, picture, texts)


def spread_picture(rows: Sequence[tuple[str, str, Sequence[float]]], x: Axis, label: str) -> Strips:
    """A picture of how values spread, with a row per name.

    A bar from the 10th to the 90th percentile, the middle half darker, the median as a line.

    Args:
      rows: name, class of the colour, and values.
      x: the axis, in percent.
      label: of the axis.
    """
    beyond = []
    for name, _, values in rows:
        if not len(values):
            continue
        for end in np.percentile(values, (10, 90)).tolist():
            if _is_beyond(end, x):
                beyond.append((name, end))
    return Strips(
        rows=[_spread_row(name, colour, values, x) for name, colour, values in rows],
        back=_lines(x, ()),
        foot=_foot(x),
        label=label,
        keys=_cut_keys(beyond, x),
    )


def _spread_row(name: str, colour: str, values: Sequence[float], x: Axis) -> Row:
    bars = []
    text = ""
    if len(values):
        percentiles = np.percentile(values, (10, 25, 50, 75, 90)).tolist()
        median = percentiles[2]
        lowest, low, middle, high, highest = [_at(value, x) for value in percentiles]
        bars = [_bar(lowest, highest), _bar(low, high)]
        at = _percent(middle)
        if _is_beyond(median, x):
            arrow = element("g", _arrow(_side(median, x)), class_="mark filled")
            bars.append(element("svg", arrow, x=at, overflow="visible"))
        else:
            bars.append(element("line", class_="middle", x1=at, x2=at, y1="-9", y2="9"))
        text = f"{median:.3f}"
    inside = element("svg", *bars, y="50%", width="100%", overflow="visible")
    picture = _strip([inside], f"{name}: median {text}")
    return Row(breakable(name), "", colour, picture, [text])


def _bar(low: float, high: float) -> Markup:
    width = max(high - low, 0.2)
    return element(
        "rect", class_="bar", x=_percent(low), y="-7", width=_percent(width), height="14"
    )


def percent_axis(values: Sequence[float], share: bool = False) -> Axis:
    """An axis for finite values on a strip."""
    return axis(values, BEGIN, END, share)


def cut_axis(
    rows: Sequence[Sequence[float]], fixed: Sequence[float] = (), share: bool = False
) -> Axis:
    """An axis on a strip, cut where one row would squeeze all others.

    Args:
      rows: the finite values of every row.
      fixed: values that it shows in any case.
      share: whether values are shares.
    """
    return percent_axis(without_outlier(rows, fixed), share)


def numbers_of(marks: Sequence[Mark]) -> list[float]:
    """All finite numbers of marks: themselves, the ends of intervals, and dots."""
    numbers = []
    for mark in marks:
        for number in (mark.at, mark.low, mark.high, *mark.dots):
            if number is not None and math.isfinite(number):
                numbers.append(number)
    return numbers


def _at(number: float, x: Axis) -> float:
    """The position of a number, at an end of the axis where it lies beyond."""
    return x.at(min(max(number, x.low), x.high))


def symbol(kind: int, filled: bool = True) -> Markup:
    """The mark of a kind, for a legend."""
    mark = element(
        "g", SHAPES[kind % len(SHAPES)], class_=_classes(filled), transform="translate(8 7)"
    )
    return element("svg", mark, width="16", height="14", aria_hidden="true")


def line_symbol(classes: str) -> Markup:
    """A line through all rows, for a legend."""
    line = element("line", class_=classes, x1="8", x2="8", y1="0", y2="14")
    return element("svg", line, width="16", height="14", aria_hidden="true")


def breakable(name: str) -> Markup:
    """A name that may be broken before a bracket and after a low line.

    >>> breakable("multi_krum(f=6)<b>")
    Markup('multi_<wbr>krum<wbr>(f=6)&lt;b&gt;')
    """
    return Markup(str(escape(name)).replace("_", "_<wbr>").replace("(", "<wbr>("))


def _mark(mark: Mark, kind: int, x: Axis, y: float) -> Markup:
    """A mark at a height in percent of its row: interval, dots, and the shape above them."""
    height = f"{y:.4g}%"
    elements = [element("title", mark.title)]
    if mark.at is not None and mark.low is not None and mark.high is not None:
        low = _percent(_at(mark.low, x))
        high = _percent(_at(mark.high, x))
        elements.append(element("line", class_="interval", x1=low, x2=high, y1=height, y2=height))
        for end in (mark.low, mark.high):
            if _is_beyond(end, x) and not _is_beyond(mark.at, x):
                arrow = _arrow(_side(end, x))
                at = _percent(_at(end, x))
                elements.append(element("svg", arrow, x=at, y=height, overflow="visible"))

    dots = []
    for value in mark.dots:
        if math.isfinite(value) and not _is_beyond(value, x):
            dots.append(element("circle", cx=f"{x.at(value):.1f}%", cy="5", r="2"))
    if dots:
        elements.append(element("svg", *dots, class_="dots", y=height, overflow="visible"))

    if mark.at is not None:
        shape = SHAPES[kind % len(SHAPES)]
        if _is_beyond(mark.at, x):
            shape = _arrow(_side(mark.at, x))
        middle = _percent(_at(mark.at, x))
        elements.append(element("svg", shape, x=middle, y=height, overflow="visible"))
    return element("g", *elements, class_=_classes(mark.filled))


def _classes(filled: bool) -> str:
    return "mark filled" if filled else "mark open"


def _lines(x: Axis, lines: Sequence[tuple[float, str]]) -> Markup:
    """Lines through all rows: the ticks, then others by number and class."""
    drawn = []
    ticks = [(tick, "tick") for tick in x.ticks()]
    inside = [(value, classes) for value, classes in lines if not _is_beyond(value, x)]
    for value, classes in [*ticks, *inside]:
        position = _percent(x.at(value))
        drawn.append(element("line", class_=classes, x1=position, x2=position, y2="100%"))
    return element("svg", *drawn, aria_hidden="true")


def _strip(inside: Sequence[Markup], label: str) -> Markup:
    return element("svg", *inside, role="img", aria_label=label)


def _foot(x: Axis) -> Markup:
    """The numbers of the axis; of many, every other one is hidden where there is little space."""
    ticks = x.ticks()
    numbers = []
    for index, tick in enumerate(ticks):
        look = {"x": _percent(x.at(tick)), "y": "13", "text_anchor": "middle"}
        if index % 2 and len(ticks) > FEW_TICKS:
            look["class_"] = "odd"
        numbers.append(element("text", short(tick), **look))
    return element("svg", *numbers, aria_hidden="true")


def _percent(value: float) -> str:
    return f"{value:.2f}%"
