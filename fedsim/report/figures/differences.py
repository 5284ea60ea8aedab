"""Paired differences to the baseline as a forest plot."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedsim.report.context import Context
from fedsim.report.figures.cut import cut_across
from fedsim.report.figures.drawing import GREY, HIGH, SMALL, literal, sheet, style
from fedsim.report.figures.marks import colour_of
from fedsim.report.pictures.differences import Difference, Forest, forests
from fedsim.report.results import Row
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import in_words, larger_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.17  # inches of a row
BETWEEN = 0.42  # inches between two panels
FRAME = 1.1  # inches of title, small print and axis, about
LONGEST = 34  # letters of a method's name, at most
LETTERS = 58  # of a line of a title
TITLE_LINE = 0.12  # inches of a further line of a title


def pages_of_differences(compared: Sequence[Row], context: Context) -> list["Figure"]:
    """Figures of the differences to the baseline, as many variations on each as fit a page.

    Args:
      compared: rows of `compare.csv`.
      context: what is shown.
    """
    drawn = forests(compared, context)
    rows = max((len(forest.rows) for forest in drawn), default=1)
    fitting = max(int((HIGH - FRAME) // (LINE * max(rows, 2) + BETWEEN)), 1)
    figures = []
    for first in range(0, len(drawn), fitting):
        page = drawn[first : first + fitting]
        figures.append(figure_of_differences(page, context))
    return figures


def figure_of_differences(drawn: Sequence[Forest], context: Context) -> "Figure":
    """A forest plot: a panel per variation, a line per method.

    Each line is the mean difference to the baseline with its 95 % interval. Filled marks are
    differences that the exact test, adjusted after Holm, calls sure; rows without a number have no
    mark.

    Args:
      drawn: the differences under every variation.
      context: what is shown.
    """
    metrics = [forest.metric for forest in drawn if forest.metric]
    metric = metrics[0] if metrics else ""
    baseline = literal(drawn[0].baseline)
    difference = f"paired difference to {baseline} in {in_words(metric)}"
    filled = f"filled: p < {SIGNIFICANCE_LEVEL} after Holm"
    note = f"{difference}, mean and 95 % interval over seeds; {filled}"

    methods = []
    heights = []
    for forest in drawn:
        methods += [row.method for row in forest.rows]
        heights.append(LINE * max(len(forest.rows), 2))
    context = context.including(methods)

    longest = 0  # letters of a name
    for forest in drawn:
        longest = max(longest, *map(len, _names(forest.rows, context)))
    left = min(0.3 + 0.052 * longest, 1.9)
    lines = max(-(-len(forest.title) // LETTERS) for forest in drawn)
    gap = BETWEEN + TITLE_LINE * max(lines - 1, 0)
    look = {"fontsize": SMALL, "pad": 2}
    with style():
        figure, panels = sheet(context.title, note, heights, foot=0.42, left=left, gap=gap)
        for axes, forest in zip(panels, drawn, strict=True):
            _draw(axes, forest.rows, context)
            place = axes.get_position()  # a title begins at the left of the figure
            title = textwrap.fill(literal(forest.title, 2 * LETTERS), LETTERS)
            axes.set_title(title, x=(0.02 - place.x0) / place.width, loc="left", **look)
        better = "right is better" if larger_is_better(metric) else "left is better"
        panels[-1].set_xlabel(f"difference ({better})", fontsize=SMALL)
        return figure


def _names(rows: Sequence[Difference], context: Context) -> list[str]:
    """The names beside the lines."""
    labels = context.labels([row.method for row in rows])
    return [literal(label, LONGEST) for label in labels]


def _draw(axes: "Axes", rows: Sequence[Difference], context: Context) -> None:
    """Draw the differences of one variation, a line per method."""
    from matplotlib.ticker import MaxNLocator

    axes.axvline(0, lw=0.8, color=GREY, zorder=1)
    for line, row in enumerate(rows):
        if row.mean is not None:
            _mark(axes, line, row, colour_of(context.rank_of(row.method)))
    cut_across(axes, list(map(_numbers, rows)), fixed=[0.0])
    axes.set_yticks(range(len(rows)), _names(rows, context))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def _numbers(row: Difference) -> list[float]:
    return [end for end in (row.mean, row.low, row.high) if end is not None]


def _mark(axes: Any, line: int, row: Difference, colour: str) -> None:
    """Draw a mean difference with its interval in the method's colour."""
    if row.low is not None:
        axes.plot([row.low, row.high], [line, line], lw=1.1, color=colour, label="interval")
    look = {"mec": colour, "mfc": colour if row.significant else "white", "ms": 3.6, "mew": 1.0}
    axes.plot([row.mean], [line], "o", label="difference", **look)
