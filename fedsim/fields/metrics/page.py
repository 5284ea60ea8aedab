"""Confusion matrices on the page."""

from collections.abc import Sequence
from importlib.resources import files

from fedsim.fields.metrics.confusion import TITLE, about, matrices_of
from fedsim.fields.metrics.pictures import picture
from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, only_table


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """A matrix for each method; None where none is counted.

    Args:
      sources: runs; of several at once, nothing is drawn.
      context: what is shown.
    """
    table = only_table(sources, "confusion")
    if table is None:
        return None
    methods = context.ordered(list(map(str, table["method"].unique())))
    panels = [
        {"title": matrix.method, "picture": picture(matrix)}
        for matrix in matrices_of(table, methods)
    ]
    html = fragment(
        files("fedsim.fields.metrics").joinpath("section.html"),
        title=TITLE,
        about=about(table),
        panels=panels,
        left_out=len(methods) - len(panels),
    )
    return Section("confusion", "Confusion", [], html, first=False)
