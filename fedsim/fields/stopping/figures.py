"""Where runs ended, as a figure: a line per method, a dot per run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.fields.stopping.ends import Ends, ends_of
from fedsim.report.context import Context
from fedsim.report.figures.drawing import FOOT, SMALL, literal, sheet, style
from fedsim.report.figures.lines import Lower, lower_axis
from fedsim.report.figures.marks import colour_of
from fedsim.report.figures.on_page import page_axes
from fedsim.report.results import rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST = 40  # lines of a figure
LINE = 0.17  # inches of a line
PAGE_LINE = 22  # pixels of a line on the page
LETTER = 0.052  # inches: width of a letter
PAGE_LETTER = 6.6  # pixels
LONGEST = 34  # letters of a name, at most
SPREAD = 0.5  # of a line, over which runs that ended in the same round are spread
NOTE = "the round in which each run ended; filled: early; bars are means"


def figures(
    frames: Mapping[str, pd.DataFrame], context: Context
) -> Iterator[tuple[str, list["Figure"]]]:
    """Yield the figure `stopping`, where some of several runs ended early."""
    if "summary" not in frames or "rounds" not in frames:
        return
    ends = ends_of(rows_of(frames["summary"]), rows_of(frames["rounds"]), context)
    pages = [ends[first : first + MOST] for first in range(0, len(ends), MOST)]
    if pages:
        yield "stopping", [_figure(page, context) for page in pages]


def _figure(ends: Sequence[Ends], context: Context) -> "Figure":
    names = [literal(each.title, LONGEST) for each in ends]
    left = 0.12 + LETTER * max(map(len, names))
    with style():
        height = LINE * max(len(ends), 2)
        figure, (axes,) = sheet(context.title, NOTE, [height], FOOT, left=left)
        draw(axes, ends, names, context)
        axes.set_xlabel("rounds", fontsize=SMALL)
        return figure


def picture_on_page(ends: Sequence[Ends], context: Context) -> Markup:
    """The same for the page, with the rounds of every method for the pointer."""
    from fedsim.report.figures.inline import PAGE_STYLE, inline, tag

    names = [literal(each.title, LONGEST) for each in ends]
    left = 16 + round(PAGE_LETTER * max(map(len, names)))
    with style(PAGE_STYLE):
        axes = page_axes((720, PAGE_LINE * max(len(ends), 2) + 56), left=left)
        bars = draw(axes, ends, names, context)
        for bar, each in zip(bars, ends, strict=True):
            tag(bar, "mean", title=f"{each.title}: {each.mean:.3g} rounds on average")
        most = max(max(each.rounds) for each in ends)
        lower_axis(axes, [0.0, float(most)], Lower("round", "rounds", whole=True))
        axes.grid(axis="x", visible=True)
        return inline(axes.figure, "the round in which each run ended")  # pyright: ignore


def draw(
    axes: "Axes", ends: Sequence[Ends], names: Sequence[str], context: Context
) -> list["Line2D"]:
    """Draw a line for each: a dot per run, hollow where it played all rounds -> bars of means."""
    bars = []
    for line, each in enumerate(ends):
        colour = colour_of(context.rank_of(each.method))
        rounds = np.array(each.rounds)
        early = np.array(each.early)
        heights = line + np.array(_heights(each.rounds))
        look = {"ms": 3, "mec": colour, "mew": 1.0}
        axes.plot(rounds[early], heights[early], "o", mfc=colour, **look)
        axes.plot(rounds[~early], heights[~early], "o", mfc="white", **look)
        bars += axes.plot([each.mean] * 2, [line - 0.35, line + 0.35], color=colour, lw=1.4)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    return bars


def _heights(rounds: list[int]) -> list[float]:
    """How far from its line each dot is, so that equal rounds are told apart.

    >>> _heights([4, 6, 4])
    [-0.25, 0.0, 0.25]
    """
    heights = []
    for place, round in enumerate(rounds):
        many = rounds.count(round)
        before = rounds[:place].count(round)
        share = before / (many - 1) - 0.5 if many > 1 else 0.0
        heights.append(SPREAD * share)
    return heights
