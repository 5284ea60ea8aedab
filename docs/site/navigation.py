"""The navigation of the site."""

from collections.abc import Iterable
from typing import Any

import kept
import kind_pages
from making import make

USE = (
    "index.md",
    "scenarios.md",
    "comparing.md",
    "analyses.md",
    "python.md",
    "from_torch.md",
    "from_flower.md",
    "promises.md",
    "machines.md",
)
UNDERSTAND = ("idea.md", "design.md", "round.md", "bits.md")
GUIDES = (*USE, *UNDERSTAND)  # which a search finds first
REFERENCE = ("cli.md", "files.md")
COMPARED = ("compared.md", "coming_from.md")
TITLES = {"notebooks/index.md": "Notebooks"}  # of pages whose heading is a path
OUTSIDE = ("source/", "reports/", "catalogue/")  # pages that are listed elsewhere, or not at all


def navigation(pages: Iterable[str]) -> list[dict[str, Any]]:
    """The navigation: every page of docs/, every kind, every kept report.

    Args:
      pages: the places of all pages.
    """
    places = sorted(pages)
    decisions = _below("decisions/", places)
    extend = _below("extend/", places)
    listed = {*USE, *UNDERSTAND, *REFERENCE, *decisions, *extend}
    listed |= {"catalogue.md", "gallery.md", "suite.md", *COMPARED}
    others: list[Any] = []
    for place in places:
        if place not in listed and not place.startswith(OUTSIDE):
            others.append({TITLES[place]: place} if place in TITLES else place)
    reports = [{title: f"reports/{folder}/index.md"} for folder, title in kept.titles().items()]
    return [
        {"Use": [*USE, *others]},
        {"Understand": [*UNDERSTAND, {"Decisions": decisions}]},
        {"Catalogue": ["catalogue.md", *_families()]},
        {"Reference": [*REFERENCE]},
        {"Extend": extend},
        {"Suite": ["suite.md"]},
        {"Reports": ["gallery.md", *reports]},
        {"Compared": [*COMPARED]},
    ]


def _below(folder: str, places: list[str]) -> list[str]:
    return [place for place in places if place.startswith(folder)]


def _families() -> list[dict[str, Any]]:
    """A section for every family, with its kinds."""
    sections: dict[str, list[dict[str, str]]] = {}
    for (family, kind), place in kind_pages.places().items():
        sections.setdefault(make.TITLES[family][0], []).append({kind: place})
    return [{title: kinds} for title, kinds in sections.items()]
