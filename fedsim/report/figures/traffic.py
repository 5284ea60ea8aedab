"""Scores against bytes: curves over what was sent so far, and the front of the methods that no other one beats in both."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.figures.drawing import COLOURS, FOOT, GREY, PALE, SMALL, literal, sheet, style
from fedsim.report.figures.marks import DASHES, LEGEND_LINE, MARKERS, STRONG
from fedsim.report.results import Row
from fedsim.report.series import series, tracks
from fedsim.study.summary import is_share
from fedsim.study.traffic import cost, direction, front_of, groups, name_of, ordered
from fedsim.study.words import variation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 10.0  # the most bytes over the fewest, from which on their scale is logarithmic
HIGH, BELOW = 1.55, 0.4  # inches: of the axes, and below each for its own scale
LETTERS, HALF = 64, 27  # of a name in the legend: alone in a line, and of two
BESIDE, UPWARDS = 2.5, (1.5, -6.0, 7.0, -11.5, 12.5, -17.0, 18.0)  # points from a mark to its number
LETTER_WIDE, LETTER_HIGH = 3.4, 5.0  # points of a letter of a number
WAYS = {"up": "bytes up", "down": "bytes down", "both": "bytes, both ways"}
COLUMNS = {"up": ("bytes_up",), "down": ("bytes_down",), "both": ("bytes_up", "bytes_down")}


class Point(NamedTuple):
    """A method (or codecs) among those that are compared.

    Attributes:
      number: beside its point, and in the legend.
      name: in the legend.
      row: of `bytes.csv`.
      look: colour, dash and marker of the front; None for what another one beats.
    """

    number: int
    name: str
    row: Row
    look: dict[str, Any] | None


def figures_of_traffic(rows: Sequence[Row], rounds: pd.DataFrame | None, scenario: Mapping[str, Any]) -> list["Figure"]:
    """A figure for every variation beside the codecs, where messages differ in size.

    Args:
      rows: of `bytes.csv`.
      rounds: the columns of `rounds.csv`; None: the front alone.
      scenario: resolved, for names and small print.
    """
    parts = ((rest, group, direction(group)) for rest, group in groups(rows).items())
    return [_figure(rest, group, way, rounds, scenario) for rest, group, way in parts if way and len(group) > 1]


def _figure(
    rest: str, rows: Sequence[Row], way: str, rounds: pd.DataFrame | None, scenario: Mapping[str, Any]
) -> "Figure":
    points = _points(rows, way, scenario)
    metric, seeds = str(rows[0]["metric"]), max(row["seeds"] for row in rows)
    notes = (
        f"above: {metric.replace('_', ' ')}, mean and range over {seeds} seeds; below: " * (rounds is not None)
        + f"{rows[0]['score']}, mean and 95 % interval",
        "line: the front; pale: another one has at least that score for no more bytes",
        variation(rest, scenario),
    )
    across = 2 if max(len(point.name) for point in points) <= HALF else 1
    legend = LEGEND_LINE * -(-len(points) // across) + 0.08
    with style():
        panels = [HIGH] * (1 if rounds is None else 2)
        note = "; ".join(filter(None, notes))
        figure, axes = sheet(str(scenario.get("name", "")), note, panels, FOOT + legend, gap=BELOW)
        if rounds is not None:
            _curves(axes[0], points, rounds, way)
        _front(axes[-1], points, way)
        for one in axes:
            one.set_ylabel(metric.replace("_", " ") + (" (share)" if is_share(metric) else ""))
        _legend(figure, points, across)
        return figure


def _points(rows: Sequence[Row], way: str, scenario: Mapping[str, Any]) -> list[Point]:
    """Those of the front first, and among each the one that sends most."""
    looks = [
        {"color": colour, "marker": marker, "linestyle": DASHES[place % len(DASHES)]}
        for place, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True))
    ]
    front = sum(bool(row.get("front")) for row in rows)
    look = lambda place: looks[place] if place < min(front, STRONG) else None
    return [Point(i + 1, name_of(row, rows, scenario), row, look(i)) for i, row in enumerate(ordered(rows, way))]


def _curves(axes: "Axes", points: Sequence[Point], rounds: pd.DataFrame, way: str) -> None:
    """The score over the bytes of all clients so far, at rounds that all seeds have."""
    ends = []
    for point in points:
        x, y = _over_bytes(point.row, rounds, way)
        if not len(x):
            continue
        line = {key: value for key, value in (point.look or {}).items() if key != "marker"}
        form = {"lw": 1.2, "zorder": 3, **line} if point.look else {"color": PALE, "lw": 0.7, "zorder": 2}
        axes.plot(x, y.mean(1), label=literal(point.name), **form)
        if point.look and y.shape[1] > 2:
            axes.fill_between(x, y.min(1), y.max(1), color=form["color"], alpha=0.13, lw=0)
        ends.append((point, x, y.mean(1)))
    totals = [float(x[-1]) for _, x, _ in ends]
    _scale(axes, totals, [float(x[0]) for _, x, _ in ends])
    axes.set_xlabel(f"{WAYS[way]}, all clients together{', log' if axes.get_xscale() == 'log' else ''}")
    _numbers(axes, [(point, float(x[-1]), float(y[-1])) for point, x, y in ends])


def _over_bytes(row: Row, rounds: pd.DataFrame, way: str) -> tuple[np.ndarray, np.ndarray]:
    """Bytes until a round `[r]`, mean over the seeds, and the scores then `[r, seeds]`; without the start."""
    metric = str(row["metric"])
    own = rounds["method"] == row["method"]
    if row.get("variant") and "variant" in rounds:
        own &= rounds["variant"] == row["variant"]
    table = pd.DataFrame(rounds[own])
    for track in tracks(table, (metric, "test_loss", *COLUMNS[way])) if len(table) else ():
        if metric not in track.values:
            continue
        numbers, scores = series(track, metric).common()
        sent = [dict(zip(*series(track, name).common(), strict=True)) for name in COLUMNS[way]]
        x = np.array([sum(float(np.mean(of[r])) for of in sent) for r in numbers])
        return x[x > 0], scores[x > 0]
    return np.zeros(0), np.zeros((0, 0))


def _front(axes: "Axes", points: Sequence[Point], way: str) -> None:
    """A point for every row, with the interval of its mean, and steps along those that no other one beats."""
    known = [point for point in points if np.isfinite(point.row["mean"])]
    costs = [cost(point.row, way) for point in known]
    _scale(axes, costs, costs)
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
    axes.set_xlabel(f"{WAYS[way]} of a client in a round{logarithmic}")


def _scale(axes: "Axes", most: Sequence[float], least: Sequence[float]) -> None:
    """Logarithmic where some send much more than others; ticks in units of bytes."""
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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_units(value)))


def in_units(count: float) -> str:
    """Bytes on an axis.

    >>> in_units(1500.0), in_units(2e6), in_units(40), in_units(0)
    ('1.5 kB', '2 MB', '40 B', '0')
    """
    if count == 0:
        return "0"
    unit, size = next((u for u in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if abs(count) >= 0.9999 * u[1]), ("B", 1.0))
    return f"{count / size:.3g} {unit}"


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
