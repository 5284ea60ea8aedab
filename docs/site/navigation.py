"""The navigation of the site."""

from collections.abc import Iterable
from typing import Any

from kind_pages import places as places_of_kinds
from making import make
from places import GALLERY

from fedsim.scenario.expected import plural_of

SCENARIOS = (
    "scenarios/index.md",
    "scenarios/data.md",
    "scenarios/clients.md",
    "scenarios/metrics.md",
    "scenarios/devices.md",
    "scenarios/bytes.md",
    "scenarios/privacy.md",
    "scenarios/personal.md",
    "scenarios/adapters.md",
    "scenarios/topologies.md",
    "scenarios/shipped.md",
)
NOTEBOOKS = (
    "notebooks/index.md",
    "notebooks/first_run.md",
    "notebooks/compare_rules.md",
    "notebooks/own_data.md",
    "notebooks/own_model.md",
    "notebooks/own_method.md",
    "notebooks/from_torch.md",
)
USE = (
    "comparing.md",
    "analyses.md",
    "python.md",
    "from_torch.md",
    "from_flower.md",
    "promises.md",
    "machines.md",
)
UNDERSTAND = ("idea.md", "design.md", "round.md", "bits.md")
GUIDES = ("index.md", *NOTEBOOKS, *SCENARIOS, *USE, *UNDERSTAND)  # which a search finds first
REFERENCE = ("cli.md", "files.md", "suite.md", "compared.md", "coming_from.md")
OUTSIDE = ("source/", "reports/")  # pages of files that are no documentation


def navigation(pages: Iterable[str]) -> list[dict[str, Any]]:
    """The navigation: every page of docs/, every kind, and the kept reports.

    Args:
      pages: the places of all pages.
    """
    places = sorted(place for place in pages if not place.startswith(OUTSIDE))
    decisions = _below("decisions/", places)
    extend = _below("extend/", places)
    listed = {*GUIDES, *REFERENCE, *decisions, *extend, *_below("catalogue/", places)}
    use = [*USE, *(place for place in places if place not in listed)]
    return [
        {"Use": ["index.md", {"Notebooks": [*NOTEBOOKS]}, {"Scenarios": [*SCENARIOS]}, *use]},
        {"Understand": [*UNDERSTAND, {"Decisions": decisions}]},
        {"Catalogue": ["catalogue/index.md", *_families()]},
        {"Reference": [*REFERENCE]},
        {"Extend": extend},
        {"Reports": GALLERY},
    ]


def _below(folder: str, places: list[str]) -> list[str]:
    return [place for place in places if place.startswith(folder)]


def _families() -> list[dict[str, Any]]:
    """A section for every family: its page, and those of its kinds."""
    sections: dict[str, list[Any]] = {}
    for family, (title, _) in make.TITLES.items():
        sections[title] = [f"catalogue/{plural_of(family)}/index.md"]
    for (family, kind), place in places_of_kinds().items():
        sections[make.TITLES[family][0]].append({kind: place})
    return [{title: listed} for title, listed in sections.items()]
