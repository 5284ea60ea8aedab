"""Sections of the page that tools add."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.installed import added, module_of
from fedsim.report.context import Context
from fedsim.report.page.sources import Source


class Section(NamedTuple):
    """A section before the curves.

    Attributes:
      anchor: of links to it.
      title: in the list of sections.
      lines: its findings, which are those of the first screen.
      html: all of it.
    """

    anchor: str
    title: str
    lines: list[str]
    html: Markup


def sections(sources: Sequence[Source], context: Context) -> list[Section]:
    """The sections that tools have to say something in."""
    found = [module_of(tool, module).section(sources, context) for tool, module in added("PAGE")]
    return [section for section in found if section is not None]
