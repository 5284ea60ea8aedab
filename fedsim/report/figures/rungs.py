"""The rungs of a search as a figure: a line per setting, as long as it was played."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.drawing import FOOT, GREYS, SMALL, literal, pages, sheet, style
from fedsim.report.figures.marks import colour_of
from fedsim.report.figures.on_page import page_axes
from fedsim.report.pictures.rungs import Played, Search, searches
from fedsim.report.results import Row
from fedsim.study.summary import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.12  # inches of a setting
PAGE_LINE = 17  # pixels
ABOVE = 0.3  # inches between panels, for their titles
LETTER = 0.05  # inches: width of a letter
PAGE_LETTER = 6.6  # pixels
LONGEST = 30  # letters of a setting, at most
ROOM = 0.2  # of the axis, behind the last rung: for its scores
BEHIND = 1.06  # of a rung: where its scores begin


def pages_of_rungs(tuning: Sequence[Row], context: Context) -> list["Figure"]:
    """Figures of all searches with rungs, as many panels on each as fit a page."""
    drawn = searches(tuning, context)
    filled = pages(drawn, lambda search: LINE * len(search.settings) + ABOVE)
    return [_figure(page, context) for page in filled]


def _figure(page: Sequence[Search], context: Context) -> "Figure":
    metric = in_words(page[0].metric)
    note = f"rounds that each setting was played, and its {metric} then; dark: played to the end"
    names = [literal(each.name, LONGEST) for search in page for each in search.settings]
    heights = [LINE * max(len(search.settings), 2) for search in page]
    left = 0.12 + LETTER * max(map(len, names))
    with style():
        figure, all_axes = sheet(context.title, note, heights, FOOT, left=left, gap=ABOVE)
        for axes, search in zip(all_axes, page, strict=True):
            draw(axes, search, context, SMALL - 1)
            axes.tick_params(labelsize=SMALL - 1)
            axes.set_title(literal(search.title, 50), fontsize=SMALL, loc="left", pad=2.5)
        all_axes[-1].set_xlabel("rounds", fontsize=SMALL)
        return figure


def rungs_on_page(search: Search, context: Context) -> Markup:
    """A search for the page."""
    from fedsim.report.figures.inline import LETTERS, PAGE_STYLE, inline

    longest = max(len(literal(each.name, LONGEST)) for each in search.settings)
    size = (560, PAGE_LINE * max(len(search.settings), 2) + 56)
    with style(PAGE_STYLE):
        axes = page_axes(size, left=16 + round(PAGE_LETTER * longest))
        draw(axes, search, context, LETTERS)
        axes.set_xlabel("rounds")
        return inline(axes.figure, f"{search.title}: the rungs of the search")  # pyright: ignore


def draw(axes: "Axes", search: Search, context: Context, letters: float) -> None:
    """Draw a line for every setting with its score behind it, and the rungs.

    Args:
      letters: height of the scores, in points.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    first = search.rungs[0] / 2
    last = search.rungs[-1]
    axes.set_xscale("log")
    colour = colour_of(context.including([search.method]).rank_of(search.method))
    for line, setting in enumerate(search.settings):
        look = {"color": _colour(setting, last, colour), "lw": 2.4 if setting.chosen else 1.4}
        axes.plot([first, setting.rung], [line, line], solid_capstyle="butt", **look)
        if setting.score is not None:
            place = (setting.rung * BEHIND, line)
            axes.text(*place, f"{setting.score:.3g}", va="center_baseline", size=letters)
    axes.set_yticks(
        range(len(search.settings)), [literal(each.name, LONGEST) for each in search.settings]
    )
    axes.set_ylim(len(search.settings) - 0.4, -0.6)
    axes.set_xlim(first, last * (last / first) ** ROOM)
    axes.xaxis.set_major_locator(FixedLocator(search.rungs))
    axes.xaxis.set_major_formatter(FixedFormatter(list(map(str, search.rungs))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)


def _colour(setting: Played, last: int, colour: str) -> str:
    """That of the method for the chosen setting, a dark grey for those played to the end."""
    if setting.chosen:
        return colour
    return GREYS[2] if setting.rung == last else GREYS[1]
