"""Curves on the page, drawn as those of a paper are, each panel as a picture of its own.

Importing this imports no matplotlib.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures import drawing
from fedsim.report.figures.cut import cut_up
from fedsim.report.figures.panels import Panel, by_method, draw_target, fill, share_limits, wide
from fedsim.report.pictures.curves import Curve
from fedsim.report.pictures.looks import colour_class
from fedsim.report.pictures.short import short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# pixels of a picture by how many are side by side
SIZES = {1: (720, 320), 2: (560, 300), 3: (400, 270)}
# pixels beside the axes
LEFT = 54
RIGHT = 14
TOP = 14
BOTTOM = 42
MARGIN = 0.02  # of the lower axis, before its first number and behind its last


class Lower(NamedTuple):
    """The lower axis of curves.

    Attributes:
      key: by which the script finds the pictures that have it.
      title: its name.
      log: whether it is logarithmic.
      whole: whether it counts something.
    """

    key: str
    title: str
    log: bool = False
    whole: bool = False


class Drawn(NamedTuple):
    """A picture, and its lower axis for the script.

    Attributes:
      picture: an element `svg`.
      span: the numbers at both ends of the axis, and whether it is logarithmic.
    """

    picture: Markup
    span: list[Any]


def page_axes(size: tuple[int, int], bottom: int = BOTTOM, left: int = LEFT) -> "Axes":
    """The axes of a new figure of so many pixels; needs the style of the page.

    Args:
      size: width and height, in pixels.
      bottom: pixels below the axes.
      left: pixels left of them.
    """
    from matplotlib.figure import Figure

    from fedsim.report.figures.inline import DOTS

    width, height = size
    figure = Figure(figsize=(width / DOTS, height / DOTS), dpi=DOTS)
    box = (left, bottom, width - left - RIGHT, height - bottom - TOP)
    return figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))


def lower_axis(axes: "Axes", numbers: Sequence[float], lower: Lower) -> list[Any]:
    """Set the lower axis: its limits, ticks and name -> both ends, and whether it is logarithmic.

    Args:
      axes: to set.
      numbers: that it spans.
      lower: the axis.
    """
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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: short(number)))
    axes.set_xlabel(title)
    return [float(f"{low:.7g}"), float(f"{high:.7g}"), lower.log]


def upright_ticks(axes: "Axes") -> None:
    """Short numbers along the upright axis, which has no name of its own."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_ylabel("")
    if axes.get_yscale() == "linear":
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: short(number)))


def series_tag(artists: Sequence["Artist"], rank: int, name: str) -> None:
    """Tag what a curve consists of, so that the script finds it; areas are bands.

    Args:
      artists: what is drawn of the curve.
      rank: of the method, which decides its colour.
      name: of the method.
    """
    from matplotlib.collections import Collection

    from fedsim.report.figures.inline import tag

    for artist in artists:
        kind = "series band" if isinstance(artist, Collection) else "series"
        tag(artist, f"{kind} {colour_class(rank)}", name)


def curves_on_page(
    panels: Sequence[Panel], lower: Lower, abreast: int, labels: Sequence[str], context: Context
) -> list[Drawn]:
    """A picture for every panel of one metric, all with the same upright axis.

    Args:
      panels: the rounds of their curves are numbers along the lower axis.
      lower: the lower axis.
      abreast: how many pictures are side by side.
      labels: of the panels, for readers who cannot see them.
      context: what is shown.
    """
    from fedsim.report.figures.inline import PAGE_STYLE, inline

    with drawing.style(PAGE_STYLE):
        log = wide(panels)
        all_axes = [page_axes(SIZES[abreast]) for _ in panels]
        spans = []
        for axes, panel in zip(all_axes, panels, strict=True):
            several = len(context.order) > 1
            drawn = fill(axes, panel, several, log, marked=False)
            for curve, artists in zip(panel.curves, drawn, strict=True):
                series_tag(artists, curve.rank, curve.name)
            numbers = np.concatenate([curve.rounds for curve in panel.curves] or [np.zeros(0)])
            spans.append(lower_axis(axes, numbers.tolist(), lower))
            upright_ticks(axes)
            draw_target(axes, panel, context.scenario, accurate=True)
        share_limits(all_axes)
        cut_up(all_axes, *by_method(panels))
        pictures = []
        for axes, label, span in zip(all_axes, labels, spans, strict=True):
            text = f"{label} by {lower.title}"
            picture = inline(axes.figure, text, data_along=lower.key)  # pyright: ignore
            pictures.append(Drawn(picture, span))
        return pictures


def along(curve: Curve, positions: np.ndarray, log: bool) -> Curve:
    """A curve over something else than rounds: its mean and its range, without single seeds.

    Args:
      curve: over rounds.
      positions: of its points, `[r]`; `[0]` where they are unknown.
      log: whether the axis is logarithmic, where points at 0 are left out.
    """
    shown = np.full(len(positions), True)
    if log:
        shown = positions > 0
    parts = [values[: len(shown)][shown] for values in (curve.mean, curve.low, curve.high)]
    return curve._replace(
        rounds=positions[shown], mean=parts[0], low=parts[1], high=parts[2], each=False, lost=[]
    )
