"""Lines with bands over a lower axis, in a figure of a paper or on the page.

Importing this imports no matplotlib.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedsim.report.figures import marks
from fedsim.report.figures.cut import cut_up
from fedsim.report.pictures.curves import Line
from fedsim.report.pictures.short import short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

MARGIN = 0.02  # of the lower axis, before its first number and behind its last
TICKS = 8  # numbers that are written along an axis, at most


class Lower(NamedTuple):
    """The lower axis of curves.

    Attributes:
      key: by which the script finds the pictures that have it.
      whole: whether it counts something.
      tick: a number of it as text.
      ticks: all numbers that it may name; none: those that fit.
    """

    key: str
    title: str
    log: bool = False
    whole: bool = False
    tick: Callable[[float], str] = short
    ticks: Sequence[float] = ()


def draw_lines(
    axes: "Axes", lines: Sequence[Line], lower: Lower, share: bool, marked: bool = False
) -> tuple[list[list["Artist"]], list[Any]]:
    """Draw lines, and set both scales -> what each line consists of, and the span of the axis.

    Args:
      share: whether heights are shares, within 0 and 1; else the axis may be cut.
    """
    numbers = np.concatenate([line.x for line in lines] or [np.zeros(0)])
    span = lower_axis(axes, [*lower.ticks, *numbers.tolist()], lower)
    artists = []
    for line in lines:
        look = marks.line_of(line.rank)
        of_line: list[Artist] = []
        if line.low is not None and line.high is not None:
            of_line.append(band(axes, line.x, line.low, line.high, look["color"], 0.15))
        marker = {}
        if marked and line.rank < marks.STRONG:
            marker = {**marks.marker_of(line.rank), "markevery": 1}
        of_line += axes.plot(line.x, line.y, label="score", **look, **marker)
        artists.append(of_line)
    if share:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.02), min(high, 1.02))
    else:
        cut_up([axes], [line.y.tolist() for line in lines], [line.name for line in lines])
    return artists, span


def band(
    axes: "Axes",
    x: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
    alpha: float,
    label: str = "",
) -> "Artist":
    """Draw the area between two lines, `[n]`; `fill_between` would take five times as long."""
    there_and_back = np.concatenate([x, x[::-1]])
    edge = np.concatenate([low, high[::-1]])
    look = {"color": colour, "alpha": alpha, "lw": 0, "label": label}
    (area,) = axes.fill(there_and_back, edge, **look)
    return area


def lower_axis(axes: "Axes", numbers: Sequence[float], lower: Lower) -> list[Any]:
    """Set the lower axis: its limits, ticks and name -> the span, as in `Drawn`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low = min(numbers, default=0.0)
    high = max(numbers, default=1.0)
    title = lower.title
    if lower.log:
        title += ", logarithmic"
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_locator(NullLocator())
        margin = (high / low) ** MARGIN
        low, high = low / margin, high * margin
    else:
        steps = [1, 2, 5, 10] if lower.whole else [1, 2, 2.5, 5, 10]
        most = 6 if axes.bbox.width > 400 else 4
        locator = MaxNLocator(most, integer=lower.whole, min_n_ticks=1, steps=steps)
        axes.xaxis.set_major_locator(locator)
        margin = MARGIN * (high - low) or 0.5
        low, high = low - margin, high + margin
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: lower.tick(number)))
    axes.set_xlabel(title)
    if lower.ticks:
        shown = lower.ticks[:: -(-len(lower.ticks) // TICKS)]
        axes.set_xticks(shown, [f"{value:g}" for value in shown])
    return span_of(axes, lower.title)


def span_of(axes: "Axes", title: str) -> list[Any]:
    """The lower axis for the script: its ends, whether it is logarithmic, and its name."""
    low, high = axes.get_xlim()
    return [float(f"{low:.7g}"), float(f"{high:.7g}"), axes.get_xscale() == "log", title]
