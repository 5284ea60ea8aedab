"""What the clients of one round do and when, on the page: a Gantt chart with a bar per client."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pandas as pd

from fedsim.fields.machines.figures import MARKS, panel_on_page
from fedsim.fields.machines.panels import LOST, WHY, WORDS, omissions, panels
from fedsim.report.context import Context
from fedsim.report.figures.rows import symbol
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, only_table
from fedsim.report.pictures.rows import Key


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """A picture per method, one for methods that share it; None where times do not differ.

    Args:
      sources: runs; of several at once, nothing is drawn.
    """
    content = shown(only_table(sources, "machines"), context.order)
    if content is None:
        return None
    html = fragment(files("fedsim.fields.machines").joinpath("section.html"), **content)
    return Section("machines", "Machines", [], html, first=False)


def shown(table: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """What the section shows; None where times do not differ."""
    if table is None:
        return None
    drawn = panels(table, list(names))
    longest = max((panel.seconds for panel in drawn), default=0.0)
    if not longest > 0:
        return None

    pictures = []
    outcomes = set()
    for panel in drawn:
        title = ", ".join(panel.names)
        pictures.append(
            {"title": title, "about": panel.about, "picture": panel_on_page(panel, longest)}
        )
        outcomes |= {bar.outcome for bar in panel.bars}

    marks = []
    for outcome, words in LOST.items():
        if outcome in outcomes:
            colour, marker = MARKS[outcome]
            marks.append((outcome, words, symbol(Key(words, marker), colour)))
    return {
        "panels": pictures,
        "omissions": [WHY, *omissions(table, list(names))],
        "phases": [*WORDS.items()],
        "marks": marks,
    }
