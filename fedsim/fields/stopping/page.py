"""Where runs ended, on the page: a picture, and what was spent until then."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from fedsim.disk.tables import Record
from fedsim.fields.stopping.ends import ends_of
from fedsim.fields.stopping.figures import picture_on_page
from fedsim.fields.stopping.spent import SPENT
from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, only_table, rows_in, tables_of
from fedsim.study.summary import variation_of

# title of a column, and its unit
TITLES = {
    "stopped_rounds": ("rounds", 1.0),
    "stopped_bytes": ("MB", 1e6),
    "stopped_virtual_seconds": ("virtual seconds", 1.0),
}


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """Where runs ended; None unless some of several ended early."""
    summary = rows_in(tables_of(sources, "summary"))
    ends = ends_of(summary, rows_in(tables_of(sources, "rounds")), context)
    if not ends:
        return None
    compared = rows_in(only_table(sources, "compare"))
    shown = [name for name in SPENT if any(row.get(name) is not None for row in compared)]
    html = fragment(
        files("fedsim.fields.stopping").joinpath("section.html"),
        picture=picture_on_page(ends, context),
        baseline=sources[0].record.get("baseline"),
        titles=[TITLES[name][0] for name in shown],
        rows=[_row(row, shown, context) for row in compared if shown],
    )
    return Section("stopping", "Where runs ended", [], html, first=False)


def _row(row: Record, shown: Sequence[str], context: Context) -> dict[str, Any]:
    title = ", ".join(filter(None, (row["method"], context.words(variation_of(row)))))
    cells = []
    for name in shown:
        _, unit = TITLES[name]
        cells += [
            _number(row.get(name), unit),
            _difference(row, name, unit),
            _number(row.get(f"{name}_p_adjusted"), 1.0),
        ]
    return {"title": title, "cells": cells}


def _difference(row: Record, name: str, unit: float) -> str:
    """A difference to the baseline with its interval; empty for the baseline."""
    text = _number(row.get(f"{name}_difference"), unit, sign="+")
    ends = [row.get(f"{name}_ci_low"), row.get(f"{name}_ci_high")]
    if None in ends:
        return text
    low, high = [_number(end, unit, sign="+") for end in ends]
    return f"{text} ({low} to {high})"


def _number(value: float | None, unit: float, sign: str = "") -> str:
    """Three digits; empty where there is no number."""
    return "" if value is None else f"{value / unit:{sign}.3g}"
