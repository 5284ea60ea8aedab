"""Scores along the only numeric axis that varies, on the page: a curve per method."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.page.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, path
from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.page.svg import element, level_grid
from fedsim.report.pictures.cut import without_outlier
from fedsim.report.pictures.looks import curve_class
from fedsim.report.pictures.scores import (
    axis_of,
    by_rest,
    drawable,
    half_interval,
    is_geometric,
)
from fedsim.report.results import Row
from fedsim.study.breakdown import MIN_VALUES
from fedsim.study.summary import distinct, grouped, in_words, is_share, values_of
from fedsim.study.words import axis_name

MARGIN = 0.03  # of the lower axis, beyond its first and last value


class Along(NamedTuple):
    """Scores along an axis, as the template takes them.

    Attributes:
      metric: in words.
      axis: the name of the axis.
      names: methods with the classes of their curves.
      pictures: what varies apart from the axis, in words, and the picture of it.
    """

    metric: str
    axis: str
    names: list[tuple[str, str]]
    pictures: list[tuple[str, Markup]]


def along(compared: Sequence[Row], context: Context) -> Along | None:
    """The scores of all methods along the axis; None where it has fewer than three values.

    Args:
      compared: rows of `compare.csv`.
      context: what is shown.
    """
    axis_path = axis_of(context.scenario)
    rows = drawable(compared)
    if axis_path is None:
        return None
    values = sorted(set(values_of(rows, axis_path)))
    if len(values) < MIN_VALUES:
        return None

    methods = context.ordered(distinct(rows, "method"))
    context = context.including(methods)
    name = axis_name(axis_path, context.scenario)
    x = _lower_axis(values)
    pictures = []
    for rest, group in by_rest(rows, axis_path).items():
        title = ""
        if rest:
            title = context.words(rest)
        pictures.append((title, _picture(group, axis_path, name, x, values, context)))
    names = [(method, curve_class(context.rank_of(method))) for method in methods]
    return Along(in_words(context.metric), name, names, pictures)


def _lower_axis(values: Sequence[float]) -> Axis:
    low = values[0]
    high = values[-1]
    if is_geometric(values):
        margin = (high / low) ** MARGIN
        return Axis(low / margin, high * margin, LEFT, WIDTH - RIGHT, log=True)
    margin = MARGIN * (high - low)
    return Axis(low - margin, high + margin, LEFT, WIDTH - RIGHT)


def _picture(
    rows: Sequence[Row],
    axis_path: str,
    name: str,
    x: Axis,
    values: Sequence[float],
    context: Context,
) -> Markup:
    """The curves of one variation of what varies apart from the axis.

    Args:
      rows: of `compare.csv`.
      axis_path: the path of the axis.
      name: of the axis.
      x: the axis.
      values: all values along it, rising.
      context: what is shown.
    """
    by_method = grouped(rows, key=lambda row: row["method"])
    ends = []  # by method
    for method_rows in by_method.values():
        method_ends = []
        for row in method_rows:
            method_ends += _ends(row)
        ends.append(method_ends)
    is_whole = is_share(context.metric)  # a method that fails is then no reason to cut the axis
    numbers = [end for of_method in ends for end in of_method]
    y = axis(numbers if is_whole else without_outlier(ends), HEIGHT - BOTTOM, TOP, is_whole)
    label = f"{name}, logarithmic" if x.log else name

    elements = [_grid(x, y, values, label)]
    for method in reversed(context.ordered([*by_method])):  # the best is drawn last
        of_method = sorted(by_method[method], key=lambda row: row[axis_path])
        classes = curve_class(context.rank_of(method))
        elements.append(_curve(of_method, axis_path, x, y, classes))
    return element(
        "svg",
        *elements,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{in_words(context.metric)} along {label}",
    )


def _ends(row: Row) -> tuple[float, float]:
    """The ends of the interval of a mean."""
    half = half_interval(row)
    return row["mean"] - half, row["mean"] + half


def _curve(rows: Sequence[Row], axis_path: str, x: Axis, y: Axis, classes: str) -> Markup:
    """A method: a line through its means with a dot at each, above the band of their intervals."""

    def point(value: float, height: float) -> tuple[float, float]:
        """A point of the curve, at an end of the upright axis where it lies beyond."""
        return value, min(max(height, y.low), y.high)

    means = []
    lows = []
    highs = []
    for row in rows:
        low, high = _ends(row)
        means.append(point(row[axis_path], row["mean"]))
        lows.append(point(row[axis_path], low))
        highs.append(point(row[axis_path], high))

    outline = path([*highs, *reversed(lows)], x, y)
    elements = [
        element("path", class_="band", d=f"{outline}Z"),
        element("path", class_="line", d=path(means, x, y)),
    ]
    for row, (value, mean) in zip(rows, means, strict=True):
        title = element("title", f"{row['method']}: {row['mean']:.4g} at {value:g}")
        dot = element("circle", cx=float(x.at(value)), cy=float(y.at(mean)), r="3")
        elements.append(element("g", title, dot, class_="mark"))
    return element("g", *elements, class_=f"series {classes}")


def _grid(x: Axis, y: Axis, values: Sequence[float], label: str) -> Markup:
    """Both axes: a tick at every value below, and the name of the lower one."""
    elements = level_grid(y, y.ticks(), LEFT, WIDTH - RIGHT)
    below = HEIGHT - BOTTOM + 16
    for value in values:
        text = short(value)
        elements.append(element("text", text, x=float(x.at(value)), y=below, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    elements.append(element("text", label, x=middle, y=HEIGHT - 8, text_anchor="middle"))
    return element("g", *elements, class_="axes")
