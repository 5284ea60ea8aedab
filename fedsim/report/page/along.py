"""Scores along the only numeric axis that varies, on the page: a curve per method."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.on_page import lines_on_page
from fedsim.report.figures.scores import axis_of_scores
from fedsim.report.page.folding import columns
from fedsim.report.pictures.looks import curve_class
from fedsim.report.pictures.scores import by_rest, drawable, score_lines
from fedsim.report.results import Row
from fedsim.study.breakdown import MIN_VALUES
from fedsim.study.price import axis_of
from fedsim.study.summary import distinct, in_words, is_share, values_of
from fedsim.study.words import axis_name


class Along(NamedTuple):
    """Scores along an axis, as the template takes them.

    Attributes:
      names: methods with the classes of their curves.
      pictures: one for every variation apart from the axis.
    """

    metric: str
    axis: str
    names: list[tuple[str, str]]
    pictures: list[Markup]


def along(compared: Sequence[Row], context: Context) -> Along | None:
    """The scores of all methods along the axis; None where it has fewer than three values."""
    path = axis_of(context.scenario)
    rows = drawable(compared)
    if path is None or len(set(values_of(rows, path))) < MIN_VALUES:
        return None

    methods = context.ordered(distinct(rows, "method"))
    context = context.including(methods)
    name = axis_name(path, context.scenario)
    metric = in_words(context.metric)
    groups = by_rest(rows, path)
    pictures = []
    for rest, group in groups.items():
        picture = lines_on_page(
            score_lines(group, context),
            axis_of_scores(group, context),
            label=f"{metric} along {name}",
            caption=context.words(rest) if rest else "",
            share=is_share(context.metric),
            abreast=columns(len(groups)),
        )
        pictures.append(picture)
    names = [(method, curve_class(context.rank_of(method))) for method in methods]
    return Along(metric, name, names, pictures)
