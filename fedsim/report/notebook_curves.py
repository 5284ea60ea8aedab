"""Small curves for a notebook: those of the page, without a style sheet."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.element import element
from fedsim.report.figures import marks
from fedsim.report.figures.drawing import style
from fedsim.report.page.charts import METRICS, charts
from fedsim.report.page.opening import ROUNDS
from fedsim.report.series import by_variant

WIDE = 340  # pixels of a picture
MAX_PANELS = 4  # variations with a picture; the others are counted
KEY = (26, 10)  # pixels of a line in the legend
COLUMNS = ("method", "variant", "seed", "round", "test_loss", "train_loss")


def curves_of(rounds: pd.DataFrame, context: Context) -> Markup:
    """The curves of the score side by side; where nothing varies that of the train loss follows."""
    methods = context.ordered(list(map(str, rounds["method"].unique())))
    read = [name for name in rounds if name in (*COLUMNS, context.metric)]
    groups = charts(pd.DataFrame(rounds[read]), methods, context, axes=[ROUNDS])
    if not groups:
        return Markup("")
    first, *others = groups
    shown = [*first["panels"].shown]
    if len(by_variant(rounds)) == 1:
        for group in others:
            if group["words"] == METRICS["train_loss"]:
                shown += group["panels"].shown
    pictures = [_picture(chart["text"], chart["picture"]) for chart in shown[:MAX_PANELS]]
    parts = [element("div", *pictures, style="display: flex; flex-wrap: wrap; gap: .5em 1em")]
    if len(methods) > 1:
        parts.append(_legend(methods, context))
    more = len(shown) + len(first["panels"].folded) - len(pictures)
    if more:
        parts.append(element("div", f"and {more} more conditions: .plot() draws all"))
    return Markup("").join(parts)


def _picture(text: str, picture: Markup) -> Markup:
    from fedsim.report.figures.inline import without_style_sheet

    caption = element("div", text, style="font-size: 90%")
    return element("div", caption, without_style_sheet(picture), style=f"flex: 0 1 {WIDE}px")


def _legend(methods: Sequence[str], context: Context) -> Markup:
    """The names of methods with their lines; those without a colour are counted."""
    entries = []
    for rank, label in enumerate(context.labels(methods[: marks.STRONG])):
        entries.append(element("span", _line(rank), " ", label, style="white-space: nowrap"))
    if len(methods) > marks.STRONG:
        entries.append(element("span", f"pale: {len(methods) - marks.STRONG} more"))
    return element("div", *entries, style="display: flex; flex-wrap: wrap; gap: 0 1.2em")


def _line(rank: int) -> Markup:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from fedsim.report.figures.inline import DOTS, PAGE_STYLE, inline, without_style_sheet

    wide, high = KEY
    with style(PAGE_STYLE):
        figure = Figure(figsize=(wide / DOTS, high / DOTS), dpi=DOTS)
        figure.add_artist(Line2D([0, 1], [0.5, 0.5], **marks.line_of(rank)))
        return without_style_sheet(inline(figure, "", width=str(wide), height=str(high)))
