"""Paired differences to the baseline as a forest plot."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsim.report.context import Context
from fedsim.report.figures.drawing import HIGH, SMALL, literal, sheet, style
from fedsim.report.figures.rows import draw_rows
from fedsim.report.pictures.differences import Forest, forests, rows_of_forest
from fedsim.report.pictures.rows import Rows
from fedsim.report.pictures.short import told_apart
from fedsim.report.results import Row
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import in_words, larger_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.17  # inches of a row
BETWEEN = 0.42  # inches between two panels
FRAME = 1.1  # inches of title, small print and axis, about
NUMBER = 0.42  # inches right of the rows, for their numbers
LONGEST = 34  # letters of a method's name, at most
LETTERS = 58  # of a line of a title
TITLE_LINE = 0.12  # inches of a further line of a title


def pages_of_differences(compared: Sequence[Row], context: Context) -> list["Figure"]:
    """Figures of the differences to the baseline, as many variations on each as fit a page."""
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
    """
    methods = [str(row["method"]) for forest in drawn for row in forest.rows]
    context = context.including(methods)
    metrics = [forest.metric for forest in drawn if forest.metric]
    metric = metrics[0] if metrics else ""
    pictures = [rows_of_forest(forest, context) for forest in drawn]
    shared, titles = told_apart([forest.title for forest in drawn])

    longest = max((len(name) for picture in pictures for name in _names(picture)), default=0)
    left = min(0.3 + 0.052 * longest, 1.9)
    titles = [textwrap.fill(literal(title, 3 * LETTERS), LETTERS) for title in titles]
    lines = max(title.count("\n") for title in titles)
    gap = BETWEEN + TITLE_LINE * lines
    heights = [LINE * max(len(picture.rows), 2) for picture in pictures]
    note = _note(drawn[0].baseline, metric, shared, pictures)
    with style():
        figure, panels = sheet(
            context.title, note, heights, foot=0.42, left=left, right=NUMBER, gap=gap
        )
        for axes, picture, title in zip(panels, pictures, titles, strict=True):
            _draw(axes, picture)
            place = axes.get_position()  # a title begins at the left of the figure
            look = {"fontsize": SMALL, "pad": 2, "loc": "left"}
            axes.set_title(title, x=(0.02 - place.x0) / place.width, **look)
        better = "right is better" if larger_is_better(metric) else "left is better"
        panels[-1].set_xlabel(f"difference ({better})", fontsize=SMALL)
        return figure


def _note(baseline: str, metric: str, shared: str, pictures: Sequence[Rows]) -> str:
    difference = f"paired difference to {literal(baseline)} in {in_words(metric)}"
    filled = f"filled: p < {SIGNIFICANCE_LEVEL} after Holm"
    notes = [f"{difference}, mean and 95 % interval over seeds", filled]
    beyond = dict.fromkeys(name for picture in pictures for name in picture.beyond)
    if beyond:
        notes.append(f"axis cut: {', '.join(beyond)} beyond it")
    if shared:
        notes.append(shared)
    return "; ".join(notes)


def _names(picture: Rows) -> list[str]:
    names = []
    for row in picture.rows:
        name = f"{row.name} ({row.note})" if row.note else row.name
        names.append(literal(name, LONGEST))
    return names


def _draw(axes: "Axes", picture: Rows) -> None:
    """Draw the differences of one variation, with a name and a number beside each row."""
    from matplotlib.ticker import MaxNLocator

    draw_rows(axes, picture)
    axes.set_ylim(len(picture.rows) - 0.5, -0.5)
    axes.set_yticks(range(len(picture.rows)), _names(picture))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    beside = {"transform": axes.get_yaxis_transform(), "fontsize": SMALL, "va": "center"}
    for place, row in enumerate(picture.rows):
        for text in row.texts:
            axes.text(1.02, place, text, **beside)
