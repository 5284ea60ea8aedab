"""Sections of the page that only some runs have, most of them added by fields and tools."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from fedsim.installed import modules_with
from fedsim.report.context import Context
from fedsim.report.figures.rungs import rungs_on_page
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, only_table, rows_in
from fedsim.report.pictures.rungs import searches
from fedsim.report.results import Row
from fedsim.study.summary import in_words


class Section(NamedTuple):
    """A section of the page.

    Attributes:
      lines: its findings, which are those of the first screen.
      first: whether it stands before the curves; else behind the costs.
    """

    anchor: str
    title: str
    lines: list[str]
    html: Markup
    first: bool = True


class Map(NamedTuple):
    """A picture of the clients, before that of their samples.

    Attributes:
      title: without a full stop.
      picture: None: it would be too large.
      caption: without a full stop.
    """

    title: str
    picture: Markup | None
    caption: str


def maps(scenario: Mapping[str, Any], partition: pd.DataFrame | None) -> list[Map]:
    """The pictures that fields draw of the clients."""
    drawn = [module.draw(scenario, partition) for module in modules_with("MAP")]
    return [picture for picture in drawn if picture is not None]


def sections(sources: Sequence[Source], context: Context) -> list[Section]:
    """The sections in which fields and tools have something to say, and the rungs of a search."""
    found = [module.section(sources, context) for module in modules_with("PAGE")]
    rungs = rungs_of(rows_in(only_table(sources, "tuning")), context)
    if rungs is not None:
        found.append(Section("rungs", "Search", [], rungs, first=False))
    return [section for section in found if section is not None]


def rungs_of(tuning: Sequence[Row], context: Context) -> Markup | None:
    """The section; None where no search has rungs."""
    shown = searches(tuning, context)
    if not shown:
        return None
    return fragment(
        files("fedsim.report.page").joinpath("rungs.html"),
        metric=in_words(shown[0].metric).removeprefix("validation "),
        left_out=sum(search.left_out for search in shown),
        panels=[(search.title, rungs_on_page(search, context)) for search in shown],
    )
