"""Curves on the page, drawn as those of a paper are, each panel as a picture of its own.

Importing this imports no matplotlib.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures import drawing
from fedsim.report.figures.cut import cut_up
from fedsim.report.figures.lines import Lower, draw_lines, lower_axis
from fedsim.report.figures.panels import (
    Panel,
    by_method,
    draw_target,
    fill,
    share_limits,
    wide,
)
from fedsim.report.pictures.curves import Line
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
DIGITS = 5  # significant digits of the numbers that the script shows


class Drawn(NamedTuple):
    """A picture over one lower axis.

    Attributes:
      span: the numbers at both ends of the axis, whether it is logarithmic, and its name.
    """

    picture: Markup
    key: str
    span: list[Any]


class Plotted(NamedTuple):
    """A curve as the script shows its numbers.

    Attributes:
      x: positions of the points by the key of a lower axis, `[r]`; `[0]` where they are unknown.
    """

    name: str
    rank: int
    x: Mapping[str, np.ndarray]
    y: np.ndarray


def page_axes(
    size: tuple[int, int],
    bottom: int = BOTTOM,
    left: int = LEFT,
    top: int = TOP,
    right: int = RIGHT,
) -> "Axes":
    """The axes of a new figure, with so many pixels beside them; needs the style of the page."""
    from matplotlib.figure import Figure

    from fedsim.report.figures.inline import DOTS

    width, height = size
    figure = Figure(figsize=(width / DOTS, height / DOTS), dpi=DOTS)
    box = (left, bottom, width - left - right, height - bottom - top)
    return figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))


def upright_ticks(axes: "Axes") -> None:
    """Short numbers along the upright axis, which has no name of its own."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_ylabel("")
    if axes.get_yscale() == "linear":
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: short(number)))


def series_tag(artists: Sequence["Artist"], rank: int, name: str) -> None:
    """Tag what a curve consists of, so that the script finds it; areas are bands."""
    from matplotlib.patches import Patch

    from fedsim.report.figures.inline import tag

    for artist in artists:
        kind = "series band" if isinstance(artist, Patch) else "series"
        tag(artist, f"{kind} {colour_class(rank)}", name)


def curves_on_page(
    panels: Sequence[Panel],
    lower: Lower,
    size: tuple[int, int],
    labels: Sequence[str],
    context: Context,
    wanted: Sequence[int],
) -> list[Drawn]:
    """Pictures of the panels of one metric, all with the same upright axis.

    Args:
      wanted: the numbers of the panels that are drawn.
    """
    from fedsim.report.figures.inline import PAGE_STYLE, inline

    with drawing.style(PAGE_STYLE):
        log = wide(panels)
        all_axes = [page_axes(size) for _ in panels]
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
        for number in wanted:
            text = f"{labels[number]} by {lower.title}"
            figure: Any = all_axes[number].figure
            picture = inline(figure, text, data_along=lower.key)
            pictures.append(Drawn(picture, lower.key, spans[number]))
        return pictures


def lines_on_page(
    lines: Sequence[Line],
    lower: Lower,
    label: str,
    caption: str = "",
    levels: Sequence[float] = (),
    uprights: Sequence[float] = (),
    share: bool = False,
    abreast: int = 1,
) -> Markup:
    """A chart of lines with bands; the first is drawn last, above the others.

    Args:
      caption: above the picture; empty: none.
      levels: heights that have a dashed line.
      uprights: numbers along the lower axis that have one.
    """
    from fedsim.report.figures.inline import PAGE_STYLE, inline

    with drawing.style(PAGE_STYLE):
        axes = page_axes(SIZES[abreast])
        drawn, span = draw_lines(axes, lines, lower, share)
        for line, artists in zip(lines, drawn, strict=True):
            series_tag(artists, line.rank, line.name)
        for height in levels:
            drawing.level_line(axes, height, label="level")
        for number in uprights:
            axes.axvline(number, lw=0.8, ls=drawing.DASHED, color=drawing.GREY, zorder=1)
        upright_ticks(axes)
        picture = inline(axes.figure, label, data_along=lower.key)  # pyright: ignore
    plotted = [Plotted(line.name, line.rank, {lower.key: line.x}, line.y) for line in lines]
    return chart(caption, [Drawn(picture, lower.key, span)], plotted)


def chart(caption: str, pictures: Sequence[Drawn], plotted: Sequence[Plotted]) -> Markup:
    """Pictures of the same curves over several lower axes, with their numbers for the script.

    Args:
      pictures: of which the first is seen.
    """
    axes: list[dict[str, list[float]]] = []  # positions that several curves share are there once
    curves = []
    for curve in plotted:
        positions = {key: _rounded(values) for key, values in curve.x.items()}
        if positions not in axes:
            axes.append(positions)
        look = colour_class(curve.rank)
        y = _rounded(curve.y)
        curves.append({"name": curve.name, "look": look, "x": axes.index(positions), "y": y})
    spans = {drawn.key: drawn.span for drawn in pictures}
    numbers = htmlsafe_json_dumps({"spans": spans, "axes": axes, "curves": curves}, dumps=_dumps)
    title = Markup("<figcaption>{}</figcaption>").format(caption) if caption else Markup("")
    first, *others = [drawn.picture for drawn in pictures]
    hidden = [Markup(str(other).replace("<svg ", "<svg hidden ", 1)) for other in others]
    return Markup(
        "<figure class=\"chart\" data-numbers='{}'>{}{}{}"
        '<output class="hint" hidden></output></figure>'
    ).format(numbers, title, first, Markup("").join(hidden))


def _dumps(numbers: Any, **_: Any) -> str:
    return json.dumps(numbers, separators=(",", ":"), allow_nan=False)


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
