"""What the clients of one round do when: a bar each, like a Gantt chart, and where the server
steps.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedsim.report.about import About
from fedsim.report.figures.drawing import (
    COLOURS,
    FOOT,
    GREY,
    HIGH,
    PALE,
    SMALL,
    literal,
    sheet,
    style,
)
from fedsim.report.figures.marks import LEGEND_LINE
from fedsim.report.pictures.machines import LOST, WORDS, Panel, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, LEAST, MOST = 0.075, 0.3, 2.4  # inches: of a row, and of a panel
ABOVE = 0.32  # inches between panels, for their titles
PARTS = {"down": COLOURS[6], "train": COLOURS[0], "up": COLOURS[2]}
MARKS = {"late": COLOURS[1], "over-selected": COLOURS[3], "left": COLOURS[4]}


def figures_of_machines(table: pd.DataFrame, about: About) -> list["Figure"]:
    """Figures of the first round of every method, as many panels on each as fit a page.

    Args:
      table: the columns of `machines.csv`.
      about: what is shown.
    """
    if not len(table):
        return []
    pages: list[list[Panel]] = [[]]
    room = HIGH - 1.6
    for panel in panels(table, list(about.order)):
        high = _high(panel) + ABOVE
        if pages[-1] and sum(_high(one) + ABOVE for one in pages[-1]) + high > room:
            pages.append([])
        pages[-1].append(panel)
    longest = (
        max(panel.seconds for page in pages for panel in page) or 1.0
    )  # all may leave before they begin
    return [_figure(page, longest, about.title) for page in pages]


def _high(panel: Panel) -> float:
    return min(max(ROW * panel.rows, LEAST), MOST)


def _figure(page: Sequence[Panel], longest: float, title: str) -> "Figure":
    with style():
        note = (
            "first round of the first seed, or first flights; "
            "a bar is a client, a line a step of the server"
        )
        high = [_high(panel) for panel in page]
        figure, axes = sheet(title, note, high, FOOT + 2 * LEGEND_LINE + 0.06, left=0.2, gap=ABOVE)
        for one, panel in zip(axes, page, strict=True):
            _draw(one, panel, longest)
        for one in axes[:-1]:
            one.tick_params(labelbottom=False)
        axes[-1].set_xlabel("virtual seconds")
        _legend(figure, {bar.outcome for panel in page for bar in panel.bars})
        return figure


def _draw(axes: "Axes", panel: Panel, longest: float) -> None:
    for bar in panel.bars:
        for name, begin, end in bar.parts:
            pale = bar.outcome in LOST
            axes.barh(
                bar.place,
                end - begin,
                0.78,
                begin,
                color=PARTS[name],
                alpha=0.35 if pale else 1.0,
                lw=0,
            )
        if bar.outcome in MARKS:
            mark = {"late": "|", "over-selected": "|", "left": "x"}[bar.outcome]
            axes.plot(
                bar.end,
                bar.place,
                mark,
                color=MARKS[bar.outcome],
                ms=4,
                mew=1.2,
                zorder=4,
                clip_on=False,
            )
    for step in panel.steps:
        axes.axvline(
            step,
            color=GREY,
            lw=0.6,
            zorder=1 if panel.flights else 3,
            ls="-" if panel.flights else "--",
        )
    axes.set_xlim(0, 1.02 * longest)
    axes.set_ylim(panel.rows - 0.4, -0.6)
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)
    names = literal(", ".join(panel.names), 34)
    axes.set_title(f"{names}: {panel.about}", fontsize=SMALL, loc="left", pad=2.5)


def _legend(figure: "Figure", outcomes: set[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lost = [name for name in LOST if name in outcomes]
    handles: list[Any] = [Patch(color=PARTS[name]) for name in WORDS] + [Patch(color=PALE)] * bool(
        lost
    )
    handles += [
        Line2D([], [], color=MARKS[name], marker="x" if name == "left" else "|", ls="", mew=1.2)
        for name in lost
    ]
    labels = [*WORDS.values(), *["does not count"] * bool(lost), *(LOST[name] for name in lost)]
    figure.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.02, 0.0), ncols=4, labelspacing=0.2,
                  columnspacing=0.8, handlelength=1.2, borderaxespad=0.2)  # fmt: skip
