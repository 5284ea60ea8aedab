"""Small curves for a notebook: SVG in the notebook's own colours, without a style sheet."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.drawing import COLOURS, PALE
from fedsim.report.page.plot import path
from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.page.svg import element
from fedsim.report.pictures.curves import Curve, curves
from fedsim.report.series import by_variant, tracks
from fedsim.study.summary import in_words, is_share

WIDTH = 320
HEIGHT = 180
# margins
LEFT = 44
RIGHT = 8
TOP = 8
BOTTOM = 32
TICKS = 6

MAX_PANELS = 4  # variations with a picture; the others are counted
MAX_BANDS = 3  # methods up to which the range of their seeds is drawn
STRONG = len(COLOURS)  # methods with a colour; the others are pale
BLACK = "#000000"  # which the colour of the notebook's text stands for
DASHES = ("", "9 3", "2 3", "9 3 2 3")


def curves_of(rounds: pd.DataFrame, context: Context) -> Markup:
    """The curves of the score side by side; where nothing varies that of the train loss follows.

    Args:
      rounds: the columns of `rounds.csv`.
      context: what is shown.
    """
    tables = by_variant(rounds)
    methods = context.ordered(list(map(str, rounds["method"].unique())))
    metric = context.metric or "train_loss"
    panels: list[tuple[str, str, list[Curve]]] = []
    if len(tables) == 1:
        for column in dict.fromkeys((metric, "train_loss")):
            panels.append((column, "", _curves(rounds, column, methods)))
    else:
        for variant, table in tables.items():
            panels.append((metric, context.words(variant), _curves(table, metric, methods)))
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        return Markup("")
    pictures = [_figure(*panel) for panel in panels[:MAX_PANELS]]
    parts = [element("div", *pictures, style="display: flex; flex-wrap: wrap; gap: .5em 1em")]
    if len(methods) > 1:
        parts.append(_legend(methods, context))
    if len(panels) > MAX_PANELS:
        more = f"and {len(panels) - MAX_PANELS} more conditions: .plot() draws all"
        parts.append(element("div", more))
    return Markup("").join(parts)


def _curves(rounds: pd.DataFrame, column: str, methods: Sequence[str]) -> list[Curve]:
    """The curves of a column that are more than a point."""
    of_column = curves(tracks(rounds, (column, "test_loss")), [column], methods)
    return [curve for curve in of_column if len(curve.rounds) > 1]


def _figure(column: str, label: str, drawn: Sequence[Curve]) -> Markup:
    """A picture with its title.

    Args:
      column: of `rounds.csv`.
      label: the variation in words; empty where nothing varies.
      drawn: the curves, in the order of the result.
    """
    rounds: list[float] = []
    heights: list[float] = []
    for curve in drawn:
        rounds += map(float, curve.rounds)
        heights += [*curve.low.tolist(), *curve.high.tolist()]
    x = axis(rounds, LEFT, WIDTH - RIGHT, exact=True)
    y = axis(heights, HEIGHT - BOTTOM, TOP, is_share(column))

    title = in_words(column)
    if y.log:
        title += ", logarithmic"
    if label:
        title += f": {label}"
    lines = [_line(curve, x, y, len(drawn)) for curve in reversed(drawn)]
    picture = element(
        "svg",
        *_grid(x, y),
        *lines,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
        aria_label=f"{title} by round",
        style="max-width: 100%",
        font_size=11,
    )
    caption = element("div", title, style="font-size: 90%")
    return element("div", caption, picture, style=f"max-width: {WIDTH}px")


def _grid(x: Axis, y: Axis) -> list[Markup]:
    """Level lines, and the numbers of both axes."""
    elements = []
    for tick in y.ticks(TICKS):
        height = y.at(tick)
        line = {"stroke": "currentColor", "stroke_opacity": "0.2"}
        elements.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height, **line))
        elements.append(_text(short(tick), LEFT - 5, height + 4, "end"))
    for tick in x.ticks(TICKS):
        if not tick.is_integer():  # of a run of a few rounds
            continue
        elements.append(_text(short(tick), x.at(tick), HEIGHT - BOTTOM + 14, "middle"))
    elements.append(_text("round", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle"))
    return elements


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return element("text", text, x=x, y=y, text_anchor=anchor, fill="currentColor")


def _line(curve: Curve, x: Axis, y: Axis, methods: int) -> Markup:
    """The mean of a method, above the range of its seeds where there are few methods."""
    rounds = curve.rounds.tolist()
    low = curve.low.tolist()
    high = curve.high.tolist()
    parts = []
    if low != high and methods <= MAX_BANDS:
        upper = zip(rounds, high, strict=True)
        lower = zip(rounds[::-1], low[::-1], strict=True)
        band = path([*upper, *lower], x, y)
        colour = colour_of(curve.rank)
        parts.append(element("path", d=f"{band}Z", fill=colour, fill_opacity="0.2"))
    line = path(list(zip(rounds, curve.mean.tolist(), strict=True)), x, y)
    parts.append(element("path", d=line, fill="none", **_stroke(curve.rank)))
    return Markup("").join(parts)


def colour_of(rank: int) -> str:
    """The colour of a method, as in figures; for black the colour of the notebook's text.

    Args:
      rank: of the method in the order of the result, from 0.
    """
    if rank >= STRONG:
        return PALE
    if COLOURS[rank] == BLACK:
        return "currentColor"
    return COLOURS[rank]


def _stroke(rank: int) -> dict[str, str]:
    """Colour, width and dash of a method's line."""
    stroke = {"stroke": colour_of(rank), "stroke_width": "1.8" if rank < STRONG else "1"}
    if DASHES[rank % len(DASHES)]:
        stroke["stroke_dasharray"] = DASHES[rank % len(DASHES)]
    return stroke


def _legend(methods: Sequence[str], context: Context) -> Markup:
    """The names of methods with their lines; those without a colour are counted."""
    entries = []
    for rank, label in enumerate(context.labels(methods[:STRONG])):
        line = element("line", x1=0, x2=26, y1=5, y2=5, **_stroke(rank))
        sample = element("svg", line, width=26, height=10, aria_hidden="true")
        entries.append(element("span", sample, " ", label, style="white-space: nowrap"))
    if len(methods) > STRONG:
        entries.append(element("span", f"pale: {len(methods) - STRONG} more"))
    return element("div", *entries, style="display: flex; flex-wrap: wrap; gap: 0 1.2em")
