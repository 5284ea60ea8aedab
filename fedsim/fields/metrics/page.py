"""Confusion matrices on the page."""

from collections.abc import Sequence
from importlib.resources import files

from fedsim.fields.metrics.confusion import PANELS, TITLE, about, matrices_of
from fedsim.fields.metrics.pictures import picture
from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, only_table


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """A matrix for each model; None where none is counted.

    Args:
      sources: runs; of several at once, nothing is drawn.
    """
    table = only_table(sources, "confusion")
    if table is None:
        return None
    methods = context.ordered(list(map(str, table["method"].unique())))
    matrices = matrices_of(table, methods)
    panels = [{"title": matrix.name, "picture": picture(matrix)} for matrix in matrices[:PANELS]]
    html = fragment(
        files("fedsim.fields.metrics").joinpath("section.html"),
        title=TITLE,
        about=about(table),
        panels=panels,
        left_out=len(matrices) - len(panels),
    )
    return Section("confusion", "Confusion", [], html, first=False)
