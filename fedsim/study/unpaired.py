"""What methods that are compared do not share, although their seeds are the same."""

import contextlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import fedsim.fleet  # noqa: F401 (importing a family registers its members)
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.fleet.selection import FEEDBACK
from fedsim.scenario.reader import parse
from fedsim.study.claims import Sentence, Weight
from fedsim.study.summary import Record


def unpaired(scenario: Mapping[str, Any] | None, compared: Iterable[Record]) -> list[Sentence]:
    """A sentence for cohorts that look at what clients reported, which depends on the method; none
    for others.

    Args:
      scenario: as in `run.json`.
      compared: rows of `compare.csv`, in which cohorts may vary.
    """
    written = dict((scenario or {}).get("cohort") or {})
    asking = set(map(_asks, [written, *_varied(written, compared)]))
    return [
        Sentence(
            f"Cohorts of {kind} depend on {words}, so they are not paired between methods.",
            Weight.CAUTION,
        )
        for kind, words in sorted(asking)
        if words
    ]


def _varied(written: dict[str, Any], compared: Iterable[Record]) -> list[dict[str, Any]]:
    """Sections `cohort` of rows in which something of it varies."""
    sections = []
    for row in compared:
        whole = _value(row["cohort"]) if "cohort" in row else written
        section = dict(whole) if isinstance(whole, Mapping) else {"kind": whole}
        keys = {name: _value(row[name]) for name in row if name.startswith("cohort.")}
        sections.append(
            section | {name.removeprefix("cohort."): value for name, value in keys.items()}
        )
    return sections


def _value(text: Any) -> Any:
    """What a cell of the table says; the text itself where it is no value."""
    with contextlib.suppress(ScenarioError):
        return parse(f"value: {text}", "").values["value"]
    return text


def _asks(section: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a cohort, and what it looks at of what clients reported; nothing where it cannot
    be made.
    """
    kind = str(section.get("kind"))
    factory = FAMILIES["cohort"].get(kind)
    if factory is None:
        return kind, ""
    arguments = {
        name: value
        for name, value in section.items()
        if name in inspect.signature(factory).parameters
    }
    try:
        return kind, " and ".join(FEEDBACK[name] for name in factory(**arguments).feedback)
    except (TypeError, ValueError):
        return kind, ""
