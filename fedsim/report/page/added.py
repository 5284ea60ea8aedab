"""Sections of the page that fields and tools add."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from fedsim.installed import added, module_of
from fedsim.report.context import Context
from fedsim.report.page.sources import Source


class Section(NamedTuple):
    """A section before or below the curves.

    Attributes:
      anchor: of links to it.
      title: in the list of sections.
      lines: its findings, which are those of the first screen if it is before the curves.
      html: all of it.
    """

    anchor: str
    title: str
    lines: list[str]
    html: Markup


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
    """The pictures that fields draw of the clients.

    Args:
      scenario: as resolved.
      partition: the columns of `partition.csv`, which lists all clients; None where there is none.
    """
    drawn = [module_of(package, name).draw(scenario, partition) for package, name in added("MAP")]
    return [picture for picture in drawn if picture is not None]


def sections(sources: Sequence[Source], context: Context, entry: str = "PAGE") -> list[Section]:
    """The sections in which fields and tools have something to say.

    Args:
      sources: runs and comparisons.
      context: what is shown.
      entry: `PAGE`, of sections before the curves, or `BELOW`.
    """
    found = [
        module_of(package, module).section(sources, context) for package, module in added(entry)
    ]
    return [section for section in found if section is not None]
