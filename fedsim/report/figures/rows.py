"""Pictures with a row per name, drawn once for the page and for figures of a paper.

On the page names and numbers are text of the page, and places are shares of what width there is, so
that letters and marks keep their size on a phone. Importing this imports no matplotlib.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from fedsim.report.element import element
from fedsim.report.figures.drawing import GREY, style
from fedsim.report.figures.marks import colour_of
from fedsim.report.pictures.rows import SHAPES, Key, Level, Mark, Row, Rows, Span
from fedsim.report.pictures.short import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_TICKS = 3  # that have space on any screen
MARGIN = 0.015  # of the strip, on both sides of the axis
KEY = (16, 14)  # pixels of a symbol in a legend


class Size(NamedTuple):
    """Sizes in points; `bar` is a share of the height of a row."""

    mark: float
    edge: float
    line: float
    dot: float
    bar: float


PAPER = Size(mark=3.6, edge=1.0, line=1.1, dot=1.2, bar=0.6)
PAGE = Size(mark=10.0, edge=1.8, line=2.2, dot=4.0, bar=0.58)
RELATIVE = dict(zip(SHAPES, (1.0, 0.9, 0.88, 1.1), strict=True))  # widths of shapes that look alike


def draw_rows(axes: "Axes", picture: Rows, size: Size = PAPER) -> None:
    """Draw rows and levels, the first row at the top; set both scales."""
    span = picture.span
    axes.set_xscale("log" if span.log else "linear")
    axes.set_xlim(span.low, span.high)
    axes.set_ylim(max(len(picture.rows), 1) - 0.5, -0.5)
    for level in picture.levels:
        if span.contains(level.at):
            axes.axvline(level.at, **_look_of(level))
    for place, row in enumerate(picture.rows):
        colour = colour_of(row.rank)
        if row.spread:
            _draw_spread(axes, place, row.spread, span, colour, size)
        for kind, mark in enumerate(row.marks):
            height = place - 0.5 + (kind + 0.5) / len(row.marks)
            _draw_mark(axes, height, mark, SHAPES[kind % len(SHAPES)], span, colour, size)


def _look_of(level: Level) -> dict[str, Any]:
    colour = GREY if level.rank is None else colour_of(level.rank)
    look = {"color": colour, "lw": 1.0, "zorder": 1}
    if level.dashes:
        look |= {"lw": 1.5, "linestyle": (0, level.dashes)}
    return look


def _draw_mark(
    axes: "Axes", height: float, mark: Mark, shape: str, span: Span, colour: str, size: Size
) -> None:
    """Draw a number above its interval and its dots; an arrow is what lies beyond the axis."""
    face = colour if mark.filled else "white"
    look = {"mec": colour, "mfc": face, "mew": size.edge, "ls": "", "clip_on": False}
    if mark.at is None:
        return
    if mark.low is not None and mark.high is not None:
        ends = (_within(mark.low, span), _within(mark.high, span))
        _line(axes, ends, height, color=colour, lw=size.line, label="interval")
        for end in (mark.low, mark.high):
            if not span.contains(end) and span.contains(mark.at):
                arrow = {"marker": _arrow(end, span), "ms": size.mark}
                _line(axes, [_within(end, span)], height, **look, **arrow)

    dots = [dot for dot in mark.dots if span.contains(dot)]
    if dots:
        small = {"marker": "o", "ms": size.dot, "mew": 0, "mfc": colour, "alpha": 0.4, "ls": ""}
        _line(axes, dots, height, label="dots", **small)
    if not span.contains(mark.at):
        shape = _arrow(mark.at, span)
    look |= {"marker": shape, "ms": size.mark * RELATIVE.get(shape, 1.0), "zorder": 3}
    _line(axes, [_within(mark.at, span)], height, label="mark", **look)


def _draw_spread(
    axes: "Axes", place: int, spread: Sequence[float], span: Span, colour: str, size: Size
) -> None:
    """Draw a bar between the outer percentiles, the middle half darker, the median as a line."""
    from matplotlib.patches import Rectangle

    lowest, low, median, high, highest = [_within(end, span) for end in spread]
    least = 0.002 * (span.high - span.low)  # of equal values
    for begin, end in ((lowest, highest), (low, high)):
        wide = max(end - begin, least)
        corner = (begin, place - size.bar / 2)
        axes.add_artist(Rectangle(corner, wide, size.bar, color=colour, alpha=0.28, lw=0))
    if span.contains(spread[2]):
        high = 0.75 * size.bar
        ends = [place - high, place + high]
        _line(axes, [median, median], ends, color="black", lw=0.9 * size.line, label="median")
    else:
        look = {"marker": _arrow(spread[2], span), "ms": size.mark, "color": colour, "ls": ""}
        _line(axes, [median], place, clip_on=False, **look)


def _line(axes: "Axes", x: Sequence[float], y: float | Sequence[float], **look: Any) -> None:
    """Draw a line or marks at a height; the scales are set, so that nothing is measured."""
    from matplotlib.lines import Line2D

    heights = [y] * len(x) if isinstance(y, int | float) else y
    axes.add_artist(Line2D(x, heights, **look))


def _within(number: float, span: Span) -> float:
    """A number, or the end of the axis that it lies beyond."""
    return min(max(number, span.low), span.high)


def _arrow(number: float, span: Span) -> str:
    """The mark of a number beyond the axis."""
    return ">" if number > span.high else "<"


# ---------------------------------------------------------------- on the page


class Shown(NamedTuple):
    """A picture as the template takes it."""

    rows: list[Row]
    drawn: Markup  # what lies behind the rows
    foot: Markup  # numbers of the axis
    label: str
    keys: list[tuple[Markup, str]]  # symbols and their meaning


def rows_on_page(picture: Rows) -> Shown:
    """A picture for the page."""
    from matplotlib.figure import Figure

    from fedsim.report.figures.inline import PAGE_STYLE, fluid, ticks_of

    label = picture.label
    with style(PAGE_STYLE):
        axes = Figure(figsize=(10, 10)).add_axes((MARGIN, 0, 1 - 2 * MARGIN, 1))
        draw_rows(axes, picture, PAGE)
        _set_ticks(axes, picture.span)
        drawn = fluid(axes, label)
        ticks = ticks_of(axes.xaxis)
        places = [axes.transData.transform((place, 0.0))[0] for place, _ in ticks]
        wide = axes.figure.bbox.width
    texts = []
    for index, (place, (_, text)) in enumerate(zip(places, ticks, strict=True)):
        look = {"x": f"{100 * place / wide:.2f}%", "y": "13", "text_anchor": "middle"}
        if index % 2 and len(ticks) > FEW_TICKS:
            look["class_"] = "odd"  # hidden where there is little space
        texts.append(element("text", text, **look))
    if picture.span.log:
        label += ", logarithmic"
    return Shown(
        rows=picture.rows,
        drawn=drawn,
        foot=element("svg", *texts, aria_hidden="true"),
        label=label,
        keys=_shown_keys(picture),
    )


def _set_ticks(axes: "Axes", span: Span) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    locator = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    axes.xaxis.set_major_locator(LogLocator(numticks=6) if span.log else locator)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: short(number)))
    axes.set_yticks([])
    axes.grid(axis="x", visible=True)


def _shown_keys(picture: Rows) -> list[tuple[Markup, str]]:
    """The legend, and that the axis is cut."""
    keys = [(symbol(key), key.text) for key in picture.keys]
    if picture.beyond:
        cut = Key(f"axis cut: {', '.join(picture.beyond)} beyond it", ">")
        keys.append((symbol(cut), cut.text))
    return keys


@functools.cache
def symbol(key: Key, colour: str = GREY) -> Markup:
    """The symbol of a legend."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from fedsim.report.figures.inline import DOTS, PAGE_STYLE, inline

    with style(PAGE_STYLE):
        figure = Figure(figsize=(KEY[0] / DOTS, KEY[1] / DOTS), dpi=DOTS)
        if key.shape:
            face = colour if key.filled else "white"
            look = {"marker": key.shape, "ms": 0.9 * PAGE.mark, "mew": PAGE.edge, "mfc": face}
            figure.add_artist(Line2D([0.5], [0.5], mec=colour, **look))
        else:
            figure.add_artist(Line2D([0.5, 0.5], [0, 1], **_look_of(key.level)))
        return inline(figure, key.text, width=str(KEY[0]), height=str(KEY[1]))
