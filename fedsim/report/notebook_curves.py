"""Small curves for a notebook: SVG in the notebook's own colours, without a style sheet."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.element import element
from fedsim.report.figures.drawing import COLOURS, PALE
from fedsim.report.figures.on_page import Lower, curves_on_page
from fedsim.report.figures.panels import Panel, wide
from fedsim.report.pictures.curves import curves
from fedsim.report.series import by_variant, tracks
from fedsim.study.summary import in_words, is_share

SIZE = (340, 220)  # pixels of a picture
MAX_PANELS = 4  # variations with a picture; the others are counted
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
    drawn = []
    if len(tables) == 1:
        for column in dict.fromkeys((metric, "train_loss")):
            drawn += _pictures([_panel(rounds, column, "", methods)], context)
    else:
        panels = [_panel(table, metric, name, methods) for name, table in tables.items()]
        drawn = _pictures(panels, context)
    if not drawn:
        return Markup("")
    pictures = drawn[:MAX_PANELS]
    parts = [element("div", *pictures, style="display: flex; flex-wrap: wrap; gap: .5em 1em")]
    if len(methods) > 1:
        parts.append(_legend(methods, context))
    if len(drawn) > MAX_PANELS:
        more = f"and {len(drawn) - MAX_PANELS} more conditions: .plot() draws all"
        parts.append(element("div", more))
    return Markup("").join(parts)


def _panel(rounds: pd.DataFrame, column: str, variant: str, methods: Sequence[str]) -> Panel:
    """The curves of a column that are more than a point."""
    of_column = curves(tracks(rounds, (column, "test_loss")), [column], methods)
    return Panel((column,), "", [curve for curve in of_column if len(curve.rounds) > 1], variant)


def _pictures(panels: Sequence[Panel], context: Context) -> list[Markup]:
    """A picture for every panel with curves, each with its title.

    Args:
      panels: of the same column.
      context: what is shown.
    """
    panels = [panel for panel in panels if panel.curves]
    if not panels:
        return []
    from fedsim.report.figures.inline import without_style_sheet

    title = in_words(panels[0].columns[0])
    if not is_share(panels[0].columns[0]) and wide(panels):
        title += ", logarithmic"
    titles = []
    for panel in panels:
        variation = context.words(panel.variant)
        titles.append(f"{title}: {variation}" if variation else title)
    lower = Lower("round", "round", whole=True)
    pictures = []
    drawn = curves_on_page(panels, lower, SIZE, titles, context)
    for text, picture in zip(titles, drawn, strict=True):
        caption = element("div", text, style="font-size: 90%")
        svg = without_style_sheet(picture.picture)
        pictures.append(element("div", caption, svg, style=f"flex: 0 1 {SIZE[0]}px"))
    return pictures


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
