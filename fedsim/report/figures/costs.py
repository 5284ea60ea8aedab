"""Scores against what they cost: curves over what was spent so far, and the front of the methods that no other one beats in
both.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.figures.cost_panels import band, course
from fedsim.report.figures.drawing import COLOURS, FOOT, GREY, PALE, SMALL, literal, sheet, style
from fedsim.report.figures.marks import DASHES, LEGEND_LINE, MARKERS, STRONG
from fedsim.report.results import Row
from fedsim.study.cost_axes import TIME, WAYS, Axis
from fedsim.study.costs import cost, direction, front_of, groups, name_of, ordered
from fedsim.study.summary import in_words, is_share
from fedsim.study.words import variation, words_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 10.0  # the most over the fewest, from which on their scale is logarithmic
HIGH, BELOW = 1.55, 0.4  # inches: of the axes, and below each for its own scale
LETTERS, HALF = 64, 27  # of a name in the legend: alone in a line, and of two
ROW = 0.15  # inches of a row of the panel of targets
BESIDE, UPWARDS = 2.5, (1.5, -6.0, 7.0, -11.5, 12.5, -17.0, 18.0)  # points from a mark to its number
LETTER_WIDE, LETTER_HIGH = 3.4, 5.0  # points of a letter of a number


class Point(NamedTuple):
    """A method (or codecs) among those that are compared.

    Attributes:
      number: beside its point, and in the legend.
      name: in the legend.
      row: of `bytes.csv` or `seconds.csv`.
      look: colour, dash and marker of the front; None for what another one beats.
    """

    number: int
    name: str
    row: Row
    look: dict[str, Any] | None


def figures_of_costs(
    axis: Axis, rows: Sequence[Row], rounds: pd.DataFrame | None, scenario: Mapping[str, Any]
) -> list["Figure"]:
    """A figure for every variation beside what is compared, where rows differ in what they cost.

    Args:
      axis: what is counted.
      rows: of its table.
      rounds: the columns of `rounds.csv`; None: the front alone.
      scenario: resolved, for names and small print.
    """
    parts = ((rest, group, direction(axis, group)) for rest, group in groups(axis, rows).items())
    return [_figure(axis, rest, group, way, rounds, scenario) for rest, group, way in parts if way and len(group) > 1]


def _figure(
    axis: Axis, rest: str, rows: Sequence[Row], way: str, rounds: pd.DataFrame | None, scenario: Mapping[str, Any]
) -> "Figure":
    points = _points(axis, rows, way, scenario)
    metric, seeds = str(rows[0]["metric"]), max(row["seeds"] for row in rows)
    spread, aimed = "95 % interval" if axis.equal else "range", axis.equal and _reached(rows)
    target = f"{metric.replace('_', ' ')} {(scenario.get('evaluate') or {}).get('target', '')}".strip()
    reached = f"{axis.noun} to {target}, median, 95 % interval, seeds that reached it"
    pale = "below or right of it: " if axis.equal else "pale: "
    notes = (
        f"above: {metric.replace('_', ' ')}, mean and {spread} over {seeds} seeds; below: " * (rounds is not None)
        + (reached if aimed else f"{rows[0]['score']}, mean and 95 % interval"),
        "" if aimed else f"line: the front; {pale}another one has at least that score for no more {axis.noun}",
        variation(rest, scenario),
    )
    across = 2 if max(len(point.name) for point in points) <= HALF else 1
    legend = LEGEND_LINE * -(-len(points) // across) + 0.08
    with style():
        low = ROW * len(points) + 0.1 if aimed else HIGH
        panels = [low] if rounds is None else [HIGH, low]
        note = "; ".join(filter(None, notes))
        figure, axes = sheet(str(scenario.get("name", "")), note, panels, FOOT + legend, gap=BELOW)
        if rounds is not None:
            _curves(axis, axes[0], points, rounds, way)
        if aimed:
            _targets(axis, axes[-1], points, target)
        else:
            _front(axis, axes[-1], points, way)
        for one in axes[:1] if aimed else axes:
            one.set_ylabel(in_words(metric) + (" (share)" if is_share(metric) else ""))
        _legend(figure, points, across)
        return figure


def _points(axis: Axis, rows: Sequence[Row], way: str, scenario: Mapping[str, Any]) -> list[Point]:
    """Those of the front first, and among each the one that costs most."""
    looks = [
        {"color": colour, "marker": marker, "linestyle": DASHES[place % len(DASHES)]}
        for place, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True))
    ]
    front = len(rows) if axis.equal else sum(bool(row.get("front")) for row in rows)
    look = lambda place: looks[place] if place < min(front, STRONG) else None
    words = words_of(scenario)
    return [Point(i + 1, name_of(axis, row, rows, words), row, look(i)) for i, row in enumerate(ordered(rows, way))]


def _curves(axis: Axis, axes: "Axes", points: Sequence[Point], rounds: pd.DataFrame, way: str) -> None:
    """The score over what was spent so far, at rounds that all seeds have."""
    ends = []
    for point in points:
        x, y = course(axis, point.row, rounds, way)
        if not len(x):
            continue
        line = {key: value for key, value in (point.look or {}).items() if key != "marker"}
        form = {"lw": 1.2, "zorder": 3, **line} if point.look else {"color": PALE, "lw": 0.7, "zorder": 2}
        axes.plot(x, y.mean(1), label=literal(point.name), **form)
        if point.look and y.shape[1] > 2:
            axes.fill_between(x, *band(axis, y), color=form["color"], alpha=0.13, lw=0)
        ends.append((point, x, y.mean(1)))
    totals = [float(x[-1]) for _, x, _ in ends]
    _scale(axis, axes, totals, [float(x[0]) for _, x, _ in ends])
    axes.set_xlabel(f"{WAYS[way].words}{axis.so_far}{', log' if axes.get_xscale() == 'log' else ''}")
    _numbers(axes, [(point, float(x[-1]), float(y[-1])) for point, x, y in ends])


def _reached(rows: Sequence[Row]) -> bool:
    """Whether half of the runs of some row reached the target."""
    return any(row.get("reached") and np.isfinite(row[TIME.target]) for row in rows)


def _targets(axis: Axis, axes: "Axes", points: Sequence[Point], target: str) -> None:
    """What every row spent to the target: the median with its interval, and how many seeds reached it."""
    ends = [point.row[name] for point in points for name in (axis.target, "target_low", "target_high")]
    most = max(end for end in ends if end is not None and np.isfinite(end))
    axes.set_xlim(0, 1.25 * most)
    for place, point in enumerate(points):
        median, low, high = (point.row[name] for name in (axis.target, "target_low", "target_high"))
        look = point.look or {"color": PALE, "marker": "o"}
        right = 1.06 * most  # of what never ends
        if low is not None and np.isfinite(low):
            axes.plot([low, min(high, right)], [place, place], color=look["color"], lw=0.9, zorder=2)
            if not np.isfinite(high):
                axes.plot([right], [place], ls="", marker=">", ms=3, color=look["color"], zorder=2)
        if np.isfinite(median):
            marker = {key: value for key, value in look.items() if key != "linestyle"}
            axes.plot([median], [place], ms=4, mew=0.5, ls="", zorder=3, label=literal(point.name), **marker)
        text = f"{point.row['reached']:.0f} of {point.row['seeds']:.0f}"
        axes.text(1.25 * most, place, text, fontsize=SMALL - 1, color=GREY, ha="right", va="center")
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_yticks(range(len(points)), [str(point.number) for point in points])
    axes.xaxis.set_major_formatter(lambda value, _: axis.tick(value))
    axes.set_xlabel(f"{axis.noun} to {target}")


def _front(axis: Axis, axes: "Axes", points: Sequence[Point], way: str) -> None:
    """A point for every row, with the interval of its mean, and steps along those that no other one beats."""
    known = [point for point in points if np.isfinite(point.row["mean"])]
    costs = [cost(point.row, way) for point in known]
    _scale(axis, axes, costs, costs)
    front = [(sent, row["mean"]) for row, sent in front_of([point.row for point in known], way)]
    axes.plot(*zip(*front, strict=True), drawstyle="steps-post", color=GREY, lw=0.8, zorder=1.5, label="front")
    for point in known:
        x, mean = cost(point.row, way), point.row["mean"]
        look = point.look or {"color": PALE, "marker": "o"}
        marker = {key: value for key, value in look.items() if key != "linestyle"}
        low, high = (point.row[end] if point.row[end] is not None else mean for end in ("ci_low", "ci_high"))
        low, high = (
            (min(max(end, 0.0), 1.0) for end in (low, high)) if is_share(str(point.row["metric"])) else (low, high)
        )
        if high > low:
            axes.plot([x, x], [low, high], color=look["color"], lw=0.8, zorder=2)
        axes.plot([x], [mean], ms=4, mew=0.5, ls="", zorder=3 if point.look else 2, label=literal(point.name), **marker)
    _numbers(axes, [(point, cost(point.row, way), point.row["mean"]) for point in known])
    logarithmic = ", log" if axes.get_xscale() == "log" else ""
    axes.set_xlabel(f"{WAYS[way].words}{WAYS[way].of}{logarithmic}")


def _scale(axis: Axis, axes: "Axes", most: Sequence[float], least: Sequence[float]) -> None:
    """Logarithmic where some spend much more than others."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    positive = [value for value in most if value > 0]
    if positive and len(positive) == len(most) and max(positive) > WIDE * min(positive):
        axes.set_xscale("log")
        low, high = min(value for value in least if value > 0), max(positive)
        margin = (high / low) ** 0.05
        axes.set_xlim(low / margin, high * margin)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0), numticks=7))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0, 1.06 * max([*positive, 1e-9]))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis.tick(value)))


def _numbers(axes: "Axes", places: Sequence[tuple[Point, float, float]]) -> None:
    """The number of every point beside it, where no other one stands; points that coincide share a place."""
    shared: dict[tuple[float, float], list[Point]] = {}
    for point, x, y in places:
        shared.setdefault((x, y), []).append(point)
    axes.autoscale_view()  # the scales that the axes will have
    taken: list[tuple[float, float, int]] = []
    for place, points in sorted(shared.items()):
        look, numbers = points[0].look, ", ".join(str(point.number) for point in points)
        x, y = axes.transData.transform(place) * 72 / axes.figure.dpi  # in points
        free = (up for up in UPWARDS if not any(_near((x, y + up, len(numbers)), other) for other in taken))
        up = next(free, UPWARDS[0])
        taken.append((x, y + up, len(numbers)))
        text = {"fontsize": SMALL - 1.5, "color": look["color"] if look else GREY, "va": "bottom"}
        axes.annotate(numbers, place, (BESIDE, up), textcoords="offset points", annotation_clip=False, **text)


def _near(one: tuple[float, float, int], other: tuple[float, float, int]) -> bool:
    """Whether two numbers would lie upon one another: where they begin, and how many letters they have."""
    (left, low, letters), (begin, bottom, others) = one, other
    return (
        abs(low - bottom) < LETTER_HIGH and left < begin + LETTER_WIDE * others and begin < left + LETTER_WIDE * letters
    )


def _legend(figure: "Figure", points: Sequence[Point], across: int) -> None:
    """Numbers and names at the foot, column by column."""
    from matplotlib.lines import Line2D

    pale: dict[str, Any] = {"color": PALE, "marker": "o", "linestyle": "-"}
    handles = [Line2D([], [], lw=1.2, ms=3.5, **(point.look or pale)) for point in points]
    where = {"loc": "lower left", "bbox_to_anchor": (0.02, 0.0), "ncols": across, "labelspacing": 0.2}
    keys = figure.legend(handles, ["-"] * len(points), borderaxespad=0.2, columnspacing=1.2, handlelength=2.6, **where)
    for key, point in zip(keys.get_texts(), points, strict=True):
        key.set_text(f"{point.number} {literal(point.name, LETTERS)}")
