"""What methods that are compared do not share, although their seeds are the same."""

from collections.abc import Iterable, Mapping
from typing import Any

import fedsim.fleet  # noqa: F401 (importing a family registers its members)
from fedsim.compose import FAMILIES
from fedsim.fleet.selection import FEEDBACK
from fedsim.study.summary import Record

COHORT = ("cohort", "cohort.kind")  # columns of what varies that say who is drawn


def unpaired(scenario: Mapping[str, Any] | None, compared: Iterable[Record]) -> list[str]:
    """A sentence for cohorts that look at what clients reported, which depends on the method; none for others.

    Args:
      scenario: as in `run.json`.
      compared: rows of `compare.csv`, in which cohorts may vary.
    """
    varied = [str(row[name]) for row in compared for name in COHORT if name in row]
    section = dict((scenario or {}).get("cohort") or {})
    kinds = [kind for kind in FAMILIES["cohort"] if any(kind in text for text in [*varied, str(section.get("kind"))])]
    asking = {kind: words for kind in kinds if (words := _asks(kind, section))}
    return [f"Cohorts of {kind} depend on {words}, so they are not paired between methods." for kind, words in asking.items()]


def _asks(kind: str, section: dict[str, Any]) -> str:
    """What a kind of cohort looks at of what clients reported; nothing where it cannot be made of what is known of it."""
    own = {name: value for name, value in section.items() if name != "kind"} if section.get("kind") == kind else {}
    try:
        return " and ".join(FEEDBACK[name] for name in FAMILIES["cohort"][kind](**own).feedback)
    except (TypeError, ValueError):
        return ""
