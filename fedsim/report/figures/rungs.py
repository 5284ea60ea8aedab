"""The rungs of a search on the page: a line per setting, as long as it was played."""

from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.drawing import GREYS, literal, style
from fedsim.report.figures.marks import colour_of
from fedsim.report.figures.on_page import page_axes
from fedsim.report.pictures.rungs import Played, Search

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 17  # pixels of a setting
LETTER = 6.6  # pixels
LONGEST = 30  # letters of a setting, at most
ROOM = 0.2  # of the axis, behind the last rung: for its scores
BEHIND = 1.06  # of a rung: where its scores begin


def rungs_on_page(search: Search, context: Context) -> Markup:
    """A search for the page."""
    from fedsim.report.figures.inline import LETTERS, PAGE_STYLE, inline

    longest = max(len(literal(each.name, LONGEST)) for each in search.settings)
    size = (560, LINE * max(len(search.settings), 2) + 56)
    with style(PAGE_STYLE):
        axes = page_axes(size, left=16 + round(LETTER * longest))
        _draw(axes, search, context, LETTERS)
        axes.set_xlabel("rounds")
        return inline(axes.figure, f"{search.title}: the rungs of the search")  # pyright: ignore


def _draw(axes: "Axes", search: Search, context: Context, letters: float) -> None:
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
