"""The scores of methods against the only numeric axis, from the rows of `compare.csv`."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedsim.report.context import Context, axis_label
from fedsim.report.figures import drawing, marks
from fedsim.report.figures.cut import cut_up, within
from fedsim.report.figures.panels import band
from fedsim.report.pictures.scores import (
    axis_of,
    by_rest,
    drawable,
    half_interval,
    is_geometric,
)
from fedsim.report.results import Row, grouped_by, metric_of
from fedsim.study.summary import distinct, in_words, is_share, values_of, worst
from fedsim.study.words import axis_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TALL = 1.9  # inches
TICKS = 8  # values that are written along the axis, at most


def figures_of_scores(
    rows: Sequence[Row], context: Context, fallen: Sequence[Row] = (), start: float | None = None
) -> list["Figure"]:
    """`figure_of_scores` for every variation of what varies apart from the axis.

    Args:
      rows: of `compare.csv`, with the column of the axis.
      context: what is shown; its scenario has the axis (`axis_of`).
      fallen: rows of `breakdown.csv`, along the same axis.
      start: the score of the untrained model.
    """
    path = str(axis_of(context.scenario))
    breaks: dict[str, dict[str, float]] = {}
    for row in fallen:
        if row["falls"] is not None:
            breaks.setdefault(row.get("variant") or "", {})[row["method"]] = row["falls"]
    figures = []
    for variant, group in by_rest(rows, path).items():
        figure = figure_of_scores(group, context, breaks.get(variant, {}), start, variant)
        figures.append(figure)
    return figures


def figure_of_scores(
    rows: Sequence[Row],
    context: Context,
    breaks: Mapping[str, float] | None = None,
    start: float | None = None,
    rest: str = "",
) -> "Figure":
    """Mean scores against the axis: a curve per method, Student's 95 % interval as a band.

    A run that diverged counts as the worst there is, as in `compare.csv`. A cross is a method's
    break-down point (`fedsim.study.breakdown`): from there on less than half of what training gains
    at the better end of the axis is left.

    Args:
      rows: of `compare.csv`, with the column of the axis.
      context: what is shown; its scenario has the axis (`axis_of`).
      breaks: break-down points by method.
      start: the score of the untrained model.
      rest: what varies apart from the axis, as in the column `variant`.
    """
    path = str(axis_of(context.scenario))
    rows = sorted(rows, key=lambda row: row[path])
    by_method = {method: group for (method,), group in grouped_by(rows, "method").items()}
    methods = context.ordered([*by_method])
    drawn = {row["method"] for row in rows if row["mean"] is not None}
    if drawn:
        # A baseline without a shared model has no score to draw.
        methods = [name for name in methods if name in drawn or name not in context.outside]
    by_method = {method: by_method[method] for method in methods}
    context = context.including(methods)
    keys = marks.keys_of(methods, context)
    crosses = {name: value for name, value in (breaks or {}).items() if name in by_method}
    metric = metric_of(rows)

    variation = ""
    if rest:
        variation = context.words(rest)
    note = _note(rows, metric, variation, bool(crosses))
    right = drawing.RIGHT + marks.numbers_inches(keys)
    with drawing.style():
        foot = drawing.FOOT + marks.legend_inches(keys)
        figure, (axes,) = drawing.sheet(context.title, note, [TALL], foot, right=right)
        draw_scores(axes, by_method, context, crosses)
        axes.set_ylabel(axis_label(metric))
        if start is not None:
            drawing.level_line(axes, start, label="untrained")
            drawing.line_text(axes, 0.01, start, "untrained", va="bottom")
        marks.numbered(axes, within(axes, _pale_ends(by_method, context)))
        if len(methods) > 1:
            marks.legend(figure, keys)
        return figure


def draw_scores(
    axes: "Axes",
    by_method: Mapping[str, Sequence[Row]],
    context: Context,
    crosses: Mapping[str, float],
    marked: bool = True,
) -> dict[str, list["Artist"]]:
    """Draw the curves of methods, and set both scales -> what each curve consists of.

    Args:
      axes: to draw in.
      by_method: rows of `compare.csv`, rising along the axis, by method in the order of the result.
      context: what is shown; its scenario has the axis.
      crosses: break-down points by method.
      marked: whether curves have markers.
    """
    path = str(axis_of(context.scenario))
    rows = list(itertools.chain.from_iterable(by_method.values()))
    _scale(axes, sorted(distinct(rows, path)), axis_name(path, context.scenario))
    artists = {}
    for method, of_method in by_method.items():
        rank = context.rank_of(method)
        artists[method] = _curve(axes, of_method, path, rank, crosses.get(method), marked)
    if is_share(metric_of(rows)):
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.02), min(high, 1.02))
    else:
        cut_up([axes], _numbers(by_method, [*by_method]), [*by_method])
    return artists


def _pale_ends(
    by_method: Mapping[str, Sequence[Row]], context: Context
) -> list[tuple[int, float, float]]:
    """Rank and last point of every pale curve, for its number."""
    path = str(axis_of(context.scenario))
    ends = []
    for method, rows in by_method.items():
        rank = context.rank_of(method)
        drawn = drawable(rows)
        if rank >= marks.STRONG and drawn:
            ends.append((rank, float(drawn[-1][path]), float(drawn[-1]["mean"])))
    return ends


def _numbers(by_method: Mapping[str, Sequence[Row]], methods: Sequence[str]) -> list[list[float]]:
    """The means of every method that are drawn."""
    numbers = []
    for method in methods:
        numbers.append(values_of(drawable(by_method[method]), "mean"))
    return numbers


def _note(rows: Sequence[Row], metric: str, variation: str, crosses: bool) -> str:
    """The small print.

    Args:
      rows: of `compare.csv`.
      metric: of the scores.
      variation: what varies apart from the axis, in words.
      crosses: whether there are break-down points.
    """
    seeds = max(row["seeds"] for row in rows)
    notes = [f"{rows[0]['score']} {in_words(metric)}, mean and 95 % interval over {seeds} seeds"]
    if variation:
        notes.append(variation)
    if crosses:
        left = "less than half of what training gained is left there and beyond"
        notes.append(f"cross: broken down, {left}")
    if is_share(metric) and any(row["diverged"] for row in rows):
        notes.append(f"a run that diverged counts as {worst(metric):.0f}")
    return "; ".join(notes)


def _scale(axes: "Axes", values: Sequence[float], name: str) -> None:
    """Set the lower axis: logarithmic where its values grow by factors, with a tick at every value.

    Args:
      axes: to set.
      values: of the axis, rising.
      name: of the axis.
    """
    from matplotlib.ticker import NullLocator

    low = values[0]
    high = values[-1]
    label = drawing.literal(name, 50)
    if is_geometric(values):
        label += ", log"
        axes.set_xscale("log")
        margin = (high / low) ** 0.02
        axes.set_xlim(low / margin, high * margin)
    else:
        # a comparison that has just begun may have a single value
        margin = 0.02 * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
    axes.set_xlabel(label)
    shown = values[:: -(-len(values) // TICKS)]
    axes.set_xticks(shown, [f"{value:g}" for value in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def _curve(
    axes: "Axes", rows: Sequence[Row], path: str, rank: int, broken: float | None, marked: bool
) -> list["Artist"]:
    """Draw the means of a method, their interval, and its break-down point.

    Args:
      axes: to draw in.
      rows: of `compare.csv`.
      path: of the axis.
      rank: of the method in the order of the result.
      broken: its break-down point, if any.
      marked: whether the curve has markers.
    """
    rows = drawable(rows)
    strong = rank < marks.STRONG
    look = marks.line_of(rank)
    x = np.array([row[path] for row in rows], float)
    mean = np.array([row["mean"] for row in rows], float)
    half = np.array([half_interval(row) for row in rows])
    artists: list[Artist] = []

    if strong and half.any():
        low = mean - half
        high = mean + half
        if is_share(str(rows[0]["metric"])):
            low = np.clip(low, 0, 1)
            high = np.clip(high, 0, 1)
        artists.append(band(axes, x, low, high, look["color"], 0.15, "interval"))

    marker = {}
    if strong and marked:
        marker = {**marks.markers_of(rank, len(x)), "markevery": 1}
    artists += axes.plot(x, mean, label="score", **look, **marker)
    if broken is not None and broken in x:
        cross = {"color": look["color"], "zorder": 4, "ms": 4, "mew": 1.0}
        if strong:
            cross |= {"ms": 7, "mew": 1.5}
        artists += axes.plot([broken], mean[x == broken], "x", label="broken down", **cross)
    return artists
