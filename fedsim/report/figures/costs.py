"""Scores against what they cost: curves over what was spent so far, and the front of the methods
that no other one beats in both.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedsim.report.about import About, beside_axis
from fedsim.report.figures.cost_panels import band, course
from fedsim.report.figures.drawing import COLOURS, FOOT, GREY, PALE, SMALL, literal, sheet, style
from fedsim.report.figures.marks import DASHES, LEGEND_LINE, MARKERS, STRONG
from fedsim.report.pictures.costs import CostPicture, Point, cost_pictures, logarithmic
from fedsim.report.results import Row
from fedsim.study.cost_axes import WAYS, Axis
from fedsim.study.summary import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HIGH, BELOW = 1.55, 0.4  # inches: of the axes, and below each for its own scale
LETTERS, HALF = 64, 27  # of a name in the legend: alone in a line, and of two
ROW = 0.15  # inches of a row of the panel of targets
# points from a mark to its number
BESIDE, UPWARDS = 2.5, (1.5, -6.0, 7.0, -11.5, 12.5, -17.0, 18.0)
LETTER_WIDE, LETTER_HIGH = 3.4, 5.0  # points of a letter of a number


Look = Mapping[str, Any] | None
"""colour, dash and marker of a row; None of what another one beats"""


def figures_of_costs(
    axis: Axis, rows: Sequence[Row], rounds: pd.DataFrame | None, about: About
) -> list["Figure"]:
    """A figure for every variation beside what is compared, where rows differ in what they cost.

    Args:
      axis: what is counted.
      rows: of its table.
      rounds: the columns of `rounds.csv`; None: the front alone.
      about: what is shown.
    """
    pictures = cost_pictures(axis, rows, "", about)
    return [_figure(picture, rounds, about) for picture in pictures if picture.drawn]


def _figure(picture: CostPicture, rounds: pd.DataFrame | None, about: About) -> "Figure":
    axis, points, looks = picture.axis, picture.points, _looks(picture)
    spread = "95 % interval" if axis.equal else "range"
    target = about.target_of(picture.metric)
    reached = f"{axis.noun} to {target}, median, 95 % interval, seeds that reached it"
    pale = "below or right of it: " if axis.equal else "pale: "
    front = f"line: the front; {pale}another one has at least that score for no more {axis.noun}"
    above = (
        f"above: {in_words(picture.metric)}, mean and {spread} over {picture.seeds} seeds; below: "
    )
    below = reached if picture.aimed else f"{about.score}, mean and 95 % interval"
    notes = (
        above + below if rounds is not None else below,
        "" if picture.aimed else front,
        picture.title,
    )
    across = 2 if max(len(point.name) for point in points) <= HALF else 1
    legend = LEGEND_LINE * -(-len(points) // across) + 0.08
    with style():
        low = ROW * len(points) + 0.1 if picture.aimed else HIGH
        panels = [low] if rounds is None else [HIGH, low]
        note = "; ".join(filter(None, notes))
        figure, axes = sheet(about.title, note, panels, FOOT + legend, gap=BELOW)
        if rounds is not None:
            _curves(axes[0], picture, looks, rounds)
        if picture.aimed:
            _targets(axes[-1], picture, looks, target)
        else:
            _front(axes[-1], picture, looks)
        for one in axes[:1] if picture.aimed else axes:
            one.set_ylabel(beside_axis(picture.metric))
        _legend(figure, picture, looks, across)
        return figure


def _looks(picture: CostPicture) -> dict[int, Look]:
    """How every row is drawn, by its number: of an axis of time all strongly, else those of the
    front.
    """
    front = sum(point.front for point in picture.points)
    strong = min(len(picture.points) if picture.axis.equal else front, STRONG)
    looks: dict[int, Look] = dict.fromkeys((point.number for point in picture.points), None)
    for place, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        if place < strong:
            looks[place + 1] = {
                "color": colour,
                "marker": marker,
                "linestyle": DASHES[place % len(DASHES)],
            }
    return looks


def _mark_of(look: Look) -> dict[str, Any]:
    """Its colour and marker."""
    marker = {key: value for key, value in (look or {}).items() if key != "linestyle"}
    return marker or {"color": PALE, "marker": "o"}


def _curves(
    axes: "Axes", picture: CostPicture, looks: Mapping[int, Look], rounds: pd.DataFrame
) -> None:
    """The score over what was spent so far, at rounds that all seeds have."""
    axis = picture.axis
    ends = []
    for point in picture.points:
        x, y = course(axis, point.row, rounds, picture.way)
        if not len(x):
            continue
        look = looks[point.number]
        line = {key: value for key, value in (look or {}).items() if key != "marker"}
        form = {"lw": 1.2, "zorder": 3, **line} if look else {"color": PALE, "lw": 0.7, "zorder": 2}
        axes.plot(x, y.mean(1), label=literal(point.name), **form)
        if look and y.shape[1] > 2:
            axes.fill_between(x, *band(axis, y), color=form["color"], alpha=0.13, lw=0)
        ends.append((point, x, y.mean(1)))
    totals = [float(x[-1]) for _, x, _ in ends]
    _scale(axis, axes, totals, [float(x[0]) for _, x, _ in ends])
    axes.set_xlabel(
        f"{WAYS[picture.way].words}{axis.so_far}{', log' if axes.get_xscale() == 'log' else ''}"
    )
    _numbers(axes, looks, [(point, float(x[-1]), float(y[-1])) for point, x, y in ends])


def _targets(axes: "Axes", picture: CostPicture, looks: Mapping[int, Look], target: str) -> None:
    """What every row spent to the target: the median with its interval, and how many seeds reached
    it.
    """
    points = picture.points
    ends = [end for point in points for end in (point.median, point.target_low, point.target_high)]
    most = max(end for end in ends if end is not None and np.isfinite(end))
    axes.set_xlim(0, 1.25 * most)
    right = 1.06 * most  # of what never ends
    for place, point in enumerate(points):
        mark = _mark_of(looks[point.number])
        low, high = point.target_low, point.target_high
        if low is not None and high is not None:
            axes.plot(
                [low, min(high, right)], [place, place], color=mark["color"], lw=0.9, zorder=2
            )
            if not np.isfinite(high):
                axes.plot([right], [place], ls="", marker=">", ms=3, color=mark["color"], zorder=2)
        if point.median is not None:
            axes.plot(
                [point.median],
                [place],
                ms=4,
                mew=0.5,
                ls="",
                zorder=3,
                label=literal(point.name),
                **mark,
            )
        axes.text(
            1.25 * most,
            place,
            point.arrived,
            fontsize=SMALL - 1,
            color=GREY,
            ha="right",
            va="center",
        )
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_yticks(range(len(points)), [str(point.number) for point in points])
    axes.xaxis.set_major_formatter(lambda value, _: picture.axis.tick(value))
    axes.set_xlabel(f"{picture.axis.noun} to {target}")


def _front(axes: "Axes", picture: CostPicture, looks: Mapping[int, Look]) -> None:
    """A point for every row, with the interval of its mean, and steps along those that no other one
    beats.
    """
    spent = [point.cost for point in picture.finite]
    _scale(picture.axis, axes, spent, spent)
    steps = {"drawstyle": "steps-post", "color": GREY, "lw": 0.8, "zorder": 1.5, "label": "front"}
    axes.plot(*zip(*picture.front, strict=True), **steps)
    for point in picture.finite:
        look = looks[point.number]
        mark = _mark_of(look)
        if point.low is not None and point.high is not None and point.high > point.low:
            axes.plot(
                [point.cost] * 2, [point.low, point.high], color=mark["color"], lw=0.8, zorder=2
            )
        above = 3 if look else 2
        axes.plot(
            [point.cost],
            [point.mean],
            ms=4,
            mew=0.5,
            ls="",
            zorder=above,
            label=literal(point.name),
            **mark,
        )
    _numbers(axes, looks, [(point, point.cost, point.mean) for point in picture.finite])
    axes.set_xlabel(f"{picture.label}{', log' if picture.log else ''}")


def _scale(axis: Axis, axes: "Axes", most: Sequence[float], least: Sequence[float]) -> None:
    """Logarithmic where some spend much more than others."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if logarithmic(most):
        axes.set_xscale("log")
        low, high = min(value for value in least if value > 0), max(most)
        margin = (high / low) ** 0.05
        axes.set_xlim(low / margin, high * margin)
        axes.xaxis.set_major_locator(
            LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0), numticks=7)
        )
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0, 1.06 * max([*most, 1e-9]))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis.tick(value)))


def _numbers(
    axes: "Axes", looks: Mapping[int, Look], places: Sequence[tuple[Point, float, float]]
) -> None:
    """The number of every point beside it, where no other one stands; points that coincide share a
    place.
    """
    shared: dict[tuple[float, float], list[Point]] = {}
    for point, x, y in places:
        shared.setdefault((x, y), []).append(point)
    axes.autoscale_view()  # the scales that the axes will have
    taken: list[tuple[float, float, int]] = []
    for place, points in sorted(shared.items()):
        look, numbers = looks[points[0].number], ", ".join(str(point.number) for point in points)
        x, y = axes.transData.transform(place) * 72 / axes.figure.dpi  # in points
        free = (
            up
            for up in UPWARDS
            if not any(_near((x, y + up, len(numbers)), other) for other in taken)
        )
        up = next(free, UPWARDS[0])
        taken.append((x, y + up, len(numbers)))
        text = {"fontsize": SMALL - 1.5, "color": look["color"] if look else GREY, "va": "bottom"}
        axes.annotate(
            numbers, place, (BESIDE, up), textcoords="offset points", annotation_clip=False, **text
        )


def _near(one: tuple[float, float, int], other: tuple[float, float, int]) -> bool:
    """Whether two numbers would lie upon one another: where they begin, and how many letters they
    have.
    """
    (left, low, letters), (begin, bottom, others) = one, other
    return (
        abs(low - bottom) < LETTER_HIGH
        and left < begin + LETTER_WIDE * others
        and begin < left + LETTER_WIDE * letters
    )


def _legend(figure: "Figure", picture: CostPicture, looks: Mapping[int, Look], across: int) -> None:
    """Numbers and names at the foot, column by column."""
    from matplotlib.lines import Line2D

    points = picture.points
    pale: dict[str, Any] = {"color": PALE, "marker": "o", "linestyle": "-"}
    handles = [Line2D([], [], lw=1.2, ms=3.5, **(looks[point.number] or pale)) for point in points]
    where = {
        "loc": "lower left",
        "bbox_to_anchor": (0.02, 0.0),
        "ncols": across,
        "labelspacing": 0.2,
    }
    keys = figure.legend(
        handles,
        ["-"] * len(points),
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=2.6,
        **where,
    )
    for key, point in zip(keys.get_texts(), points, strict=True):
        key.set_text(f"{point.number} {literal(point.name, LETTERS)}")
