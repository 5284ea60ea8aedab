"""What the clients of one round do and when: a Gantt chart with a bar per client."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from fedsim.fields.machines.panels import LOST, WORDS, Bar, Panel, panels
from fedsim.report.context import Context
from fedsim.report.figures.drawing import (
    COLOURS,
    FOOT,
    GREY,
    GREYS,
    PALE,
    SMALL,
    literal,
    pages,
    sheet,
    style,
)
from fedsim.report.figures.lines import Lower, lower_axis
from fedsim.report.figures.marks import LEGEND_LINE
from fedsim.report.figures.on_page import page_axes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.075  # inches of a row
PAGE_ROW = 9  # pixels of a row on the page, at most
PAGE_HIGH = 360  # pixels of all rows
MIN_PANEL = 0.3  # inches of a panel
MAX_PANEL = 2.4
ABOVE = 0.32  # inches between panels, for their titles
# Colours are for methods.
PHASES: dict[str, str] = dict(zip(("down", "train", "up"), GREYS, strict=True))
MARKS = {  # of clients whose messages do not count: colour and marker
    "late": (COLOURS[1], "|"),
    "over-selected": (COLOURS[3], "|"),
    "left": (COLOURS[4], "x"),
}


def figures(
    frames: Mapping[str, pd.DataFrame], context: Context
) -> Iterator[tuple[str, list["Figure"]]]:
    """Yield the figure `machines`, where there is its table: the first round of every method."""
    table = frames.get("machines")
    if table is None or not len(table):
        return
    drawn = panels(table, list(context.order))
    # all clients may leave before they begin
    longest = max(panel.seconds for panel in drawn) or 1.0
    filled = pages(drawn, lambda panel: _height(panel) + ABOVE)
    yield "machines", [_figure(page, longest, context.title) for page in filled]


def _height(panel: Panel) -> float:
    return min(max(ROW * panel.rows, MIN_PANEL), MAX_PANEL)


def _figure(page: Sequence[Panel], longest: float, title: str) -> "Figure":
    note = (
        "first round of the first seed, or first flights, to show who waits for whom; "
        "a bar is a client, a line a step of the server"
    )
    heights = [_height(panel) for panel in page]
    foot = FOOT + 2 * LEGEND_LINE + 0.06
    with style():
        figure, all_axes = sheet(title, note, heights, foot, left=0.2, gap=ABOVE)
        for axes, panel in zip(all_axes, page, strict=True):
            draw(axes, panel, longest)
            names = literal(", ".join(panel.names), 34)
            axes.set_title(f"{names}: {panel.about}", fontsize=SMALL, loc="left", pad=2.5)
        for axes in all_axes[:-1]:
            axes.tick_params(labelbottom=False)
        all_axes[-1].set_xlabel("virtual seconds")
        outcomes = set()
        for panel in page:
            outcomes |= {bar.outcome for bar in panel.bars}
        _legend(figure, outcomes)
        return figure


def draw(axes: "Axes", panel: Panel, longest: float) -> list[list["Artist"]]:
    """Draw a panel -> what each bar consists of; time goes from 0 to the end of the longest one."""
    artists = [_draw_bar(axes, bar) for bar in panel.bars]
    look = {"lw": 0.6, "color": GREY, "zorder": 3, "ls": "--"}
    if panel.flights:
        look |= {"zorder": 1, "ls": "-"}
    for seconds in panel.steps:
        axes.axvline(seconds, **look)

    axes.set_xlim(0, 1.02 * longest)
    axes.set_ylim(panel.rows - 0.4, -0.6)
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)
    return artists


def _draw_bar(axes: "Axes", bar: Bar) -> list["Artist"]:
    """Draw the phases of a client's work, pale and with a mark where its message does not count."""
    artists: list[Artist] = []
    alpha = 0.35 if bar.outcome in LOST else 1.0
    for phase, begin, end in bar.phases:
        look = {"color": PHASES[phase], "alpha": alpha, "lw": 0}
        artists += axes.barh(bar.row, end - begin, height=0.78, left=begin, **look)
    if bar.outcome in MARKS:
        colour, marker = MARKS[bar.outcome]
        look = {"color": colour, "ms": 4, "mew": 1.2, "zorder": 4, "clip_on": False}
        artists += axes.plot(bar.end, bar.row, marker, **look)
    return artists


def panel_on_page(panel: Panel, longest: float) -> Markup:
    """A panel for the page, with what became of every client for the pointer."""
    from fedsim.report.figures.inline import PAGE_STYLE, inline, tag

    with style(PAGE_STYLE):
        high = min(PAGE_ROW * panel.rows, PAGE_HIGH)
        axes = page_axes((560, round(high) + 56), left=8)
        for bar, artists in zip(panel.bars, draw(axes, panel, longest), strict=True):
            for artist in artists:
                lost = " lost" if bar.outcome in LOST else ""
                title = f"client {bar.client}: {bar.outcome}, {bar.end:.3g} s"
                tag(artist, f"client{lost}", title=title)
        lower_axis(axes, [0.0, longest], Lower("seconds", "virtual seconds"))
        axes.grid(axis="x", visible=True)
        label = f"{', '.join(panel.names)}: what clients do when; {panel.about}"
        return inline(axes.figure, label)  # pyright: ignore


def _legend(figure: "Figure", outcomes: set[str]) -> None:
    """Draw the legend: phases, and the marks of messages that do not count."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=PHASES[phase]) for phase in WORDS]
    labels = [*WORDS.values()]
    lost = [outcome for outcome in LOST if outcome in outcomes]
    if lost:
        handles.append(Patch(color=PALE))
        labels.append("does not count")
    for outcome in lost:
        colour, marker = MARKS[outcome]
        handles.append(Line2D([], [], color=colour, marker=marker, ls="", mew=1.2))
        labels.append(LOST[outcome])
    look = {
        "loc": "lower left",
        "bbox_to_anchor": (0.02, 0.0),
        "ncols": 4,
        "labelspacing": 0.2,
        "columnspacing": 0.8,
        "handlelength": 1.2,
        "borderaxespad": 0.2,
    }
    figure.legend(handles, labels, **look)
