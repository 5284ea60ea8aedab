"""Paired differences to the baseline as a forest plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedsim.report.about import About
from fedsim.report.figures.drawing import COLOURS, GREY, HIGH, SMALL, literal, sheet, style
from fedsim.report.pictures.differences import Difference, Forest, forests
from fedsim.report.results import Row
from fedsim.study.pairing import SURE
from fedsim.study.summary import in_words, larger_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.17  # inches of a row
BETWEEN = 0.42  # inches between two panels
FRAME = 1.1  # inches of title, small print and axis, about


def pages_of_differences(compared: Sequence[Row], about: About) -> list["Figure"]:
    """`figure_of_differences`; of more variations than fit a page several.

    Args:
      compared: rows of `compare.csv`.
      about: what is shown.
    """
    parts = forests(compared, about)
    rows = max((len(part.rows) for part in parts), default=1)
    most = max(int((HIGH - FRAME) // (LINE * max(rows, 2) + BETWEEN)), 1)
    return [figure_of_differences(parts[i : i + most], about) for i in range(0, len(parts), most)]


def figure_of_differences(parts: Sequence[Forest], about: About) -> "Figure":
    """A forest plot, a line per method: mean difference to the baseline with its 95 % interval; a
    panel per variation.

    Filled marks are differences that the exact test, adjusted after Holm, calls sure; rows without
    a number have no mark.

    Args:
      parts: the differences under every variation.
      about: what is shown.
    """
    metric = next((part.metric for part in parts if part.metric), "")
    baseline = literal(parts[0].baseline)
    note = (
        f"paired difference to {baseline} in {in_words(metric)}, mean and 95 % interval over seeds"
    )
    note = f"{note}; filled: p < {SURE} after Holm"
    longest = max(len(literal(row.method, 34)) for part in parts for row in part.rows)
    left = min(0.3 + 0.052 * longest, 1.9)
    heights = [LINE * max(len(part.rows), 2) for part in parts]
    with style():
        figure, panels = sheet(about.title, note, heights, foot=0.42, left=left, gap=BETWEEN)
        for axes, part in zip(panels, parts, strict=True):
            _forest(axes, part.rows)
            axes.set_title(literal(part.variant, 60), loc="left", fontsize=SMALL, pad=2)
        better = "right is better" if larger_is_better(metric) else "left is better"
        panels[-1].set_xlabel(f"difference ({better})", fontsize=SMALL)
        return figure


def _forest(axes: "Axes", rows: Sequence[Difference]) -> None:
    """A forest plot: a line per method."""
    from matplotlib.ticker import MaxNLocator

    axes.axvline(0, lw=0.8, color=GREY, zorder=1)
    for place, row in enumerate(rows):
        if row.mean is not None:
            _mark(axes, place, row)
    axes.set_yticks(range(len(rows)), [literal(row.method, 34) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def _mark(axes: Any, place: int, row: Difference) -> None:
    """A mean difference with its interval."""
    colour = COLOURS[0]
    if row.low is not None:
        axes.plot([row.low, row.high], [place, place], lw=1.1, color=colour, label="interval")
    face = colour if row.sure else "white"
    axes.plot([row.mean], [place], "o", ms=3.6, mec=colour, mfc=face, mew=1.0, label="difference")
