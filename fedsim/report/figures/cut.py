"""Axes of figures that are cut where one method would squeeze all others, with a mark that says so.

Importing this imports no matplotlib.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fedsim.report.figures.drawing import COLOURS, SMALL, literal
from fedsim.report.pictures.cut import outlier, without_outlier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Of = TypeVar("Of")

MARGIN = 0.06  # of the axis, beyond what it spans
LONGEST = 24  # letters of a name
LOOK: dict[str, Any] = {"fontsize": SMALL - 0.5, "color": COLOURS[1], "clip_on": False, "zorder": 5}
ARROWS = {"up": "▴", "down": "▾"}


def cut_up(panels: Sequence["Axes"], rows: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    """Cut the upright axis where one method squeezes the others; an arrow has the method's name.

    Args:
      rows: the finite numbers of every method.
    """
    row = outlier(rows)
    if row is None:
        return
    low, high = _limits(without_outlier(rows), log=panels[0].get_yscale() == "log")
    name = literal(names[row], LONGEST)
    for axes in panels:
        axes.set_ylim(low, high)
        if max(rows[row]) > high:
            text = f"{ARROWS['up']} {name} beyond, axis cut"
            axes.text(0.01, 0.99, text, transform=axes.transAxes, va="top", **LOOK)
        if min(rows[row]) < low:
            text = f"{ARROWS['down']} {name} beyond, axis cut"
            axes.text(0.01, 0.01, text, transform=axes.transAxes, va="bottom", **LOOK)


def within(axes: "Axes", ends: Sequence[tuple[Of, float, float]]) -> list[tuple[Of, float, float]]:
    """The ends of curves that do not lie beyond an axis that is cut.

    Args:
      ends: what each is of, and its x and y.
    """
    axes.autoscale_view()  # the scales that the axes will have
    low, high = axes.get_ylim()
    return [end for end in ends if low <= end[2] <= high]


def _limits(numbers: Sequence[float], log: bool) -> tuple[float, float]:
    low = min(numbers)
    high = max(numbers)
    if log and low > 0:
        return low / 1.2, high * 1.2
    margin = MARGIN * (high - low)
    return low - margin, high + margin
