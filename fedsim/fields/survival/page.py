"""Kaplan-Meier curves of the clients, on the page."""

from collections.abc import Sequence
from importlib.resources import files

from fedsim.fields.survival.lines import AXIS, MOST, TITLE, Steps, steps_of
from fedsim.report.context import Context
from fedsim.report.figures.lines import Lower
from fedsim.report.figures.on_page import lines_on_page
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, only_table
from fedsim.report.pictures.curves import Line
from fedsim.report.pictures.looks import STRONG, curve_class
from fedsim.report.results import EMPTY, Cell

HEAD = ["client", "samples", "events", "median time"]


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """The curves and a row for each client; None for targets that are no times.

    Args:
      sources: runs; of several at once, nothing is drawn.
    """
    del context
    table = only_table(sources, "survival")
    if table is None or not len(table):
        return None
    curves = steps_of(table)
    lines = []
    keys = []
    for rank, curve in enumerate(curves):
        lines.append(Line(curve.client, rank, curve.time, curve.survival))
        if rank < STRONG:
            keys.append((curve.client, curve_class(rank)))
    picture = lines_on_page(lines[::-1], Lower(AXIS, AXIS), TITLE, share=True)
    html = fragment(
        files("fedsim.fields.survival").joinpath("section.html"),
        title=TITLE,
        picture=picture,
        legend=keys,
        pale=len(curves) - len(keys),
        left_out=table["client"].nunique() - len(curves) if len(curves) == MOST else 0,
        table={"head": HEAD, "groups": [("", [_row(curve) for curve in curves])]},
    )
    return Section("survival", "Survival", [], html, first=False)


def _row(curve: Steps) -> list[Cell]:
    """A client, its samples and events, and the time by which half have had an event."""
    median = EMPTY if curve.median is None else (f"{curve.median:.6g}", curve.median)
    return [
        (curve.client, curve.client),
        (f"{curve.samples:,}", curve.samples),
        (f"{curve.events:,}", curve.events),
        median,
    ]
