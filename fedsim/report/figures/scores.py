"""The scores of methods against the only numeric axis, from the rows of `compare.csv`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedsim.report.context import Context, axis_label
from fedsim.report.figures import drawing, marks
from fedsim.report.figures.cut import within
from fedsim.report.figures.lines import Lower, draw_lines
from fedsim.report.pictures.scores import by_rest, is_geometric, score_lines
from fedsim.report.results import Row, metric_of
from fedsim.study.price import axis_of
from fedsim.study.summary import distinct, in_words, is_share, worst
from fedsim.study.words import axis_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TALL = 1.9  # inches


def figures_of_scores(
    rows: Sequence[Row], context: Context, fallen: Sequence[Row], start: float | None
) -> list["Figure"]:
    """`figure_of_scores` for every variation of what varies apart from the axis.

    Args:
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
    breaks: Mapping[str, float],
    start: float | None,
    rest: str,
) -> "Figure":
    """Mean scores against the axis: a curve per method, Student's 95 % interval as a band.

    A run that diverged counts as the worst there is, as in `compare.csv`. A cross is a method's
    break-down point (`fedsim.study.breakdown`): from there on less than half of what training gains
    at the better end of the axis is left.

    Args:
      start: the score of the untrained model.
      rest: what varies apart from the axis, as in the column `variant`.
    """
    methods = context.ordered(distinct(rows, "method"))
    drawn = {row["method"] for row in rows if row["mean"] is not None}
    if drawn:
        # A baseline without a shared model has no score to draw.
        methods = [name for name in methods if name in drawn or name not in context.outside]
    context = context.including(methods)
    rows = [row for row in rows if row["method"] in methods]
    keys = marks.keys_of(methods, context)
    crosses = {name: value for name, value in breaks.items() if name in methods}
    metric = metric_of(rows)

    variation = ""
    if rest:
        variation = context.words(rest)
    note = _note(rows, metric, variation, bool(crosses))
    right = drawing.RIGHT + marks.numbers_inches(keys)
    with drawing.style():
        foot = drawing.FOOT + marks.legend_inches(keys)
        figure, (axes,) = drawing.sheet(context.title, note, [TALL], foot, right=right)
        lines = score_lines(rows, context)
        draw_lines(axes, lines, axis_of_scores(rows, context), is_share(metric), marked=True)
        for line in lines:
            if line.name in crosses:
                _cross(axes, line.rank, crosses[line.name], line.y[line.x == crosses[line.name]])
        axes.set_ylabel(axis_label(metric))
        if start is not None:
            drawing.level_line(axes, start, label="untrained")
            drawing.line_text(axes, 0.01, start, "untrained", va="bottom")
        pale = [line for line in lines if line.rank >= marks.STRONG and len(line.x)]
        ends = [(line.rank, float(line.x[-1]), float(line.y[-1])) for line in pale]
        marks.numbered(axes, within(axes, ends))
        if len(methods) > 1:
            marks.legend(figure, keys)
        return figure


def axis_of_scores(rows: Sequence[Row], context: Context) -> Lower:
    """The axis, with a tick at every value; logarithmic where these grow by factors."""
    path = str(axis_of(context.scenario))
    values = sorted(distinct(rows, path))
    name = drawing.literal(axis_name(path, context.scenario), 50)
    return Lower("axis", name, is_geometric(values), ticks=values)


def _cross(axes: "Axes", rank: int, x: float, mean: np.ndarray) -> None:
    """Draw a break-down point, where the method has a score."""
    size = {"ms": 7, "mew": 1.5} if rank < marks.STRONG else {"ms": 4, "mew": 1.0}
    look = {"color": marks.line_of(rank)["color"], "zorder": 4, "label": "broken down", **size}
    axes.plot([x] * len(mean), mean, "x", **look)


def _note(rows: Sequence[Row], metric: str, variation: str, crosses: bool) -> str:
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
