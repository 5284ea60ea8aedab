"""Scores along the only numeric axis that varies, on the page: a curve per method."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures import drawing
from fedsim.report.figures.on_page import (
    SIZES,
    Drawn,
    Plotted,
    chart,
    page_axes,
    series_tag,
    span_of,
    upright_ticks,
)
from fedsim.report.figures.scores import draw_scores
from fedsim.report.page.folding import columns
from fedsim.report.pictures.looks import curve_class
from fedsim.report.pictures.scores import axis_of, by_rest, drawable
from fedsim.report.results import Row
from fedsim.study.breakdown import MIN_VALUES
from fedsim.study.summary import distinct, grouped, in_words, values_of
from fedsim.study.words import axis_name


class Along(NamedTuple):
    """Scores along an axis, as the template takes them.

    Attributes:
      metric: in words.
      axis: the name of the axis.
      names: methods with the classes of their curves.
      pictures: one for every variation apart from the axis.
    """

    metric: str
    axis: str
    names: list[tuple[str, str]]
    pictures: list[Markup]


def along(compared: Sequence[Row], context: Context) -> Along | None:
    """The scores of all methods along the axis; None where it has fewer than three values.

    Args:
      compared: rows of `compare.csv`.
      context: what is shown.
    """
    path = axis_of(context.scenario)
    rows = drawable(compared)
    if path is None or len(set(values_of(rows, path))) < MIN_VALUES:
        return None

    methods = context.ordered(distinct(rows, "method"))
    context = context.including(methods)
    pictures = []
    groups = by_rest(rows, path)
    size = SIZES[columns(len(groups))]
    for rest, group in groups.items():
        title = context.words(rest) if rest else ""
        pictures.append(_picture(group, path, title, size, context))
    names = [(method, curve_class(context.rank_of(method))) for method in methods]
    name = axis_name(path, context.scenario)
    return Along(in_words(context.metric), name, names, pictures)


def _picture(
    rows: Sequence[Row], path: str, title: str, size: tuple[int, int], context: Context
) -> Markup:
    """The curves of one variation of what varies apart from the axis.

    Args:
      rows: of `compare.csv`.
      path: of the axis.
      title: the variation in words.
      size: width and height, in pixels.
      context: what is shown.
    """
    from fedsim.report.figures.inline import PAGE_STYLE, inline

    groups = grouped(sorted(rows, key=lambda row: row[path]), key=lambda row: row["method"])
    by_method = {method: groups[method] for method in context.ordered([*groups])}
    name = axis_name(path, context.scenario)
    with drawing.style(PAGE_STYLE):
        axes = page_axes(size)
        for method, artists in draw_scores(axes, by_method, context, {}, marked=False).items():
            series_tag(artists, context.rank_of(method), method)
        upright_ticks(axes)
        label = f"{in_words(context.metric)} along {name}"
        picture = inline(axes.figure, label, data_along="axis")  # pyright: ignore
    plotted = []
    for method, of_method in by_method.items():
        x = np.array(values_of(of_method, path), float)
        y = np.array(values_of(of_method, "mean"), float)
        plotted.append(Plotted(method, context.rank_of(method), {"axis": x}, y))
    return chart(title, [Drawn(picture, "axis", span_of(axes, name))], plotted)
