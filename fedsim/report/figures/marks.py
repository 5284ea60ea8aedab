"""How methods are told apart in a figure: by colour, dash and marker at once, so that curves that coincide stay visible.

The first eight, in the order of the result, are drawn strongly; the others are pale, thin, and numbered.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedsim.report.figures.drawing import COLOURS, GREY, PALE, SMALL, WIDE, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STRONG = 8  # methods that are drawn strongly
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.1)), (0, (5, 1.2, 1, 1.2)))
MARKERS = "os^DvP<*"
MARKED = 5  # points of a curve that carry its marker, about
LISTED = 60  # names of a legend; the others are counted
LEGEND_LINE = 0.117  # inches
BETWEEN = 0.07  # inches between two numbers beside pale curves, at least


def line_of(place: int) -> dict[str, Any]:
    """Colour, dash and width of the method in that place; a line is thinner than those that it is drawn upon."""
    if place >= STRONG:
        return {"color": PALE, "linestyle": "-", "lw": 0.7, "zorder": 1.5}
    dash = DASHES[place % len(DASHES)]
    return {
        "color": COLOURS[place],
        "linestyle": dash,
        "lw": 1.6 - 0.08 * place,
        "zorder": 2 + 0.05 * place,
    }


def marker_of(place: int) -> dict[str, Any]:
    """Its marker, every other one hollow; smaller than those of the methods before it."""
    if place >= STRONG:
        return {}
    face = {"markerfacecolor": "white"} if place % 2 else {}
    return {
        "marker": MARKERS[place],
        "markersize": 3.8 - 0.2 * place,
        "markeredgewidth": 0.8,
        **face,
    }


def markers_of(place: int, points: int) -> dict[str, Any]:
    """Its marker at some of the points of a curve, at others than the method before it where there are enough."""
    step = max(math.ceil(points / MARKED), 1)
    marker = marker_of(place)
    return {**marker, "markevery": (place * step // 4 % step, step)} if marker else {}


def numbered(axes: "Axes", ends: Sequence[tuple[int, float, float]]) -> None:
    """The numbers of pale curves right of their ends, moved apart where they would lie upon one another.

    Args:
      axes: whose limits are set.
      ends: place, x and y of the end of each curve.
    """
    if not ends:
        return
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    log, figure = axes.get_yscale() == "log", axes.figure
    inches = axes.get_position().height * figure.get_figheight()  # pyright: ignore
    share = lambda y: math.log(y / low) / math.log(high / low) if log else (y - low) / (high - low)
    places, at = [], -math.inf
    for place, x, y in sorted(ends, key=lambda end: end[2]):
        at = max(share(y), at + BETWEEN / inches)
        places.append((place, (x - left) / (right - left), at))
    above = max(at - 1.0, 0.0)  # of the axes, by which all of them are moved down
    for place, x, y in places:
        text = {"fontsize": SMALL - 2, "color": GREY, "va": "center", "transform": axes.transAxes}
        axes.text(x + 0.008, y - above, f"{place + 1}", **text)


def labels_of(names: Sequence[str]) -> list[str]:
    """The names of a legend; those of pale curves with their number."""
    shown = [
        literal(name) if place < STRONG else f"{place + 1} {literal(name)}"
        for place, name in enumerate(names)
    ]
    return [*shown[:LISTED], f"... {len(shown) - LISTED} more"] if len(shown) > LISTED else shown


def abreast(names: Sequence[str]) -> int:
    """How many names stand in a line of the legend."""
    labels = labels_of(names)
    longest = max(map(len, labels), default=1)
    return max(min(int((WIDE - 0.1) / (0.42 + 0.052 * longest)), len(labels), 4), 1)


def legend_inches(names: Sequence[str]) -> float:
    """How high the legend is."""
    return (
        LEGEND_LINE * -(-len(labels_of(names)) // abreast(names)) + 0.08 if len(names) > 1 else 0.0
    )


def legend(figure: "Figure", names: Sequence[str]) -> None:
    """At the foot, line by line in the order of the names."""
    from matplotlib.lines import Line2D

    labels, columns = labels_of(names), abreast(names)
    handles: list[Any] = [
        Line2D([], [], **line_of(place), **marker_of(place)) for place in range(len(labels))
    ]
    lines = -(-len(labels) // columns)
    order = [
        i * columns + j for j in range(columns) for i in range(lines)
    ]  # matplotlib fills column by column
    handles += [Line2D([], [], lw=0)] * (lines * columns - len(labels))
    labels = labels + [""] * (lines * columns - len(labels))
    where = {
        "loc": "lower center",
        "ncols": columns,
        "borderaxespad": 0.2,
        "labelspacing": 0.2,
        "columnspacing": 1.2,
    }
    keys = figure.legend([handles[i] for i in order], ["-"] * len(order), handlelength=2.6, **where)
    for key, i in zip(keys.get_texts(), order, strict=True):
        key.set_text(labels[i])  # given to `legend`, a name that begins with _ would be left out
