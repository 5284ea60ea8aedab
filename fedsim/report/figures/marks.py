"""How methods are told apart in a figure: by colour, dash and marker at once.

So curves that coincide stay visible. The first eight methods, in the order of the result, are drawn
strongly; the others are pale, thin, and numbered.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fedsim.report.context import Context
from fedsim.report.figures.drawing import COLOURS, GREY, PALE, SMALL, WIDE, literal
from fedsim.report.pictures.looks import STRONG

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.1)), (0, (5, 1.2, 1, 1.2)))
MARKERS = "os^DvP<*"
MARKED = 5  # markers of a curve, about
LISTED = 60  # names in a legend, at most; the others are counted
LEGEND_LINE = 0.117  # inches
BETWEEN = 0.07  # inches between two numbers beside pale curves, at least


class Key(NamedTuple):
    """A method in the legend.

    Attributes:
      number: before its name, and beside what is drawn of it; None: none.
    """

    rank: int
    label: str
    number: int | None = None


def keys_of(methods: Sequence[str], context: Context) -> list[Key]:
    """The legend of methods."""
    keys = []
    for name, label in zip(methods, context.labels(methods), strict=True):
        rank = context.rank_of(name)
        keys.append(Key(rank, label, rank + 1 if rank >= STRONG else None))
    return keys


def colour_of(rank: int) -> str:
    """The colour of a method's marks; grey for pale ones, which have a name beside them."""
    if rank >= STRONG:
        return GREY
    return COLOURS[rank]


def line_of(rank: int) -> dict[str, Any]:
    """Colour, dash and width of a method's line; thinner than the lines that it covers."""
    if rank >= STRONG:
        return {"color": PALE, "linestyle": "-", "lw": 0.7, "zorder": 1.5}
    return {
        "color": COLOURS[rank],
        "linestyle": DASHES[rank % len(DASHES)],
        "lw": 1.6 - 0.08 * rank,
        "zorder": 2 + 0.05 * rank,
    }


def marker_of(rank: int) -> dict[str, Any]:
    """A method's marker, every other one hollow; smaller than the markers that it covers."""
    if rank >= STRONG:
        return {}
    marker = {
        "marker": MARKERS[rank],
        "markersize": 3.8 - 0.2 * rank,
        "markeredgewidth": 0.8,
    }
    if rank % 2:
        marker["markerfacecolor"] = "white"
    return marker


def markers_of(rank: int, points: int) -> dict[str, Any]:
    """A method's marker at some points of its curve, at others than the method before it."""
    marker = marker_of(rank)
    if not marker:
        return {}
    step = max(math.ceil(points / MARKED), 1)
    first = rank * step // 4 % step
    return {**marker, "markevery": (first, step)}


def numbered(axes: "Axes", ends: Sequence[tuple[int, float, float]]) -> None:
    """Write the numbers of pale curves right of their ends, apart from each other.

    Args:
      ends: rank of the method, and x and y of the end of its curve.
    """
    if not ends:
        return
    left, right = axes.get_xlim()
    inches = axes.get_position().height * axes.figure.get_figheight()  # pyright: ignore

    # positions in shares of the axes, from the lowest curve up
    positions = []
    lowest = -math.inf
    for rank, x, y in sorted(ends, key=lambda end: end[2]):
        height = max(_share(axes, y), lowest)
        lowest = height + BETWEEN / inches
        positions.append((rank, (x - left) / (right - left), height))

    highest = positions[-1][2]
    above = max(highest - 1.0, 0.0)
    look = {"fontsize": SMALL - 2, "color": GREY, "va": "center", "transform": axes.transAxes}
    for rank, x, y in positions:
        axes.text(x + 0.008, y - above, f"{rank + 1}", **look)


def numbers_inches(keys: Sequence[Key]) -> float:
    """The space that the numbers of pale curves take right of the axes."""
    if any(key.rank >= STRONG for key in keys):
        return 0.1
    return 0.0


def _share(axes: "Axes", y: float) -> float:
    """The height of a number in shares of the axes."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        return math.log(y / low) / math.log(high / low)
    return (y - low) / (high - low)


def labels_of(keys: Sequence[Key]) -> list[str]:
    """The names of a legend, with their numbers."""
    shown = []
    for key in keys:
        label = literal(key.label)
        if key.number is not None:
            label = f"{key.number} {label}"
        shown.append(label)
    if len(shown) > LISTED:
        return [*shown[:LISTED], f"... {len(shown) - LISTED} more"]
    return shown


def abreast(keys: Sequence[Key]) -> int:
    """How many names are side by side in the legend."""
    labels = labels_of(keys)
    longest = max(map(len, labels), default=1)
    fitting = int((WIDE - 0.1) / (0.42 + 0.052 * longest))
    return max(min(fitting, len(labels), 4), 1)


def legend_inches(keys: Sequence[Key]) -> float:
    """The height of the legend."""
    if len(keys) <= 1:
        return 0.0
    lines = -(-len(labels_of(keys)) // abreast(keys))
    return LEGEND_LINE * lines + 0.08


def legend(figure: "Figure", keys: Sequence[Key]) -> None:
    """Draw the legend at the foot of a figure, line by line in the order of the methods."""
    from matplotlib.lines import Line2D

    labels = labels_of(keys)
    columns = abreast(keys)
    lines = -(-len(labels) // columns)
    empty = lines * columns - len(labels)
    handles: list[Any] = []
    for key in keys[: len(labels)]:
        handles.append(Line2D([], [], **line_of(key.rank), **marker_of(key.rank)))
    handles += [Line2D([], [], lw=0)] * empty
    labels += [""] * empty

    # matplotlib fills column by column
    order = []
    for column in range(columns):
        order += range(column, lines * columns, columns)
    look = {
        "loc": "lower center",
        "ncols": columns,
        "borderaxespad": 0.2,
        "labelspacing": 0.2,
        "columnspacing": 1.2,
        "handlelength": 2.6,
    }
    ordered_handles = [handles[index] for index in order]
    drawn = figure.legend(ordered_handles, ["-"] * len(order), **look)
    # given to `legend`, a name that begins with _ would be left out
    for text, index in zip(drawn.get_texts(), order, strict=True):
        text.set_text(labels[index])
