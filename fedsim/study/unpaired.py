"""A warning about cohorts that are not the same for all methods, although the seeds are."""

import contextlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import fedsim.fleet  # noqa: F401 (importing a family registers its members)
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.fleet.selection import FEEDBACK
from fedsim.scenario.reader import parse
from fedsim.study.summary import Record

DEPEND = "Cohorts of {kind} depend on {feedback}, so they are not paired between methods."


def unpaired_lines(scenario: Mapping[str, Any] | None, compared: Iterable[Record]) -> list[str]:
    """Return a sentence for every cohort that depends on what clients reported; none for others.

    What clients report depends on the method, and so do such cohorts.

    Args:
      scenario: the scenario, as in `run.json`.
      compared: rows of `compare.csv`, in which cohorts may vary.
    """
    section = dict((scenario or {}).get("cohort") or {})
    kinds: set[tuple[str, str]] = {_kind_and_feedback(section)}
    for row in compared:
        kinds.add(_kind_and_feedback(_section_of(row, section)))

    lines = []
    for kind, feedback in sorted(kinds):
        if feedback:
            lines.append(DEPEND.format(kind=kind, feedback=feedback))
    return lines


def _section_of(row: Record, section: Mapping[str, Any]) -> dict[str, Any]:
    """The section `cohort` of a row: the scenario's, changed by what varies.

    Args:
      row: a row of `compare.csv`, with columns such as `cohort` or `cohort.size`.
      section: the section of the scenario.
    """
    cohort: Any = section
    if "cohort" in row:
        cohort = _value(row["cohort"])
    if isinstance(cohort, Mapping):
        varied = dict(cohort)
    else:
        varied = {"kind": cohort}

    for name, text in row.items():
        if name.startswith("cohort."):
            varied[name.removeprefix("cohort.")] = _value(text)
    return varied


def _value(text: Any) -> Any:
    """The value that a cell of the table spells; the text itself if it does not parse."""
    with contextlib.suppress(ScenarioError):
        return parse(f"value: {text}", "").values["value"]
    return text


def _kind_and_feedback(section: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a cohort, and what it reads of clients' reports, in words.

    The words are empty if it reads nothing, or cannot be made.
    """
    kind = str(section.get("kind"))
    factory = FAMILIES["cohort"].get(kind)
    if factory is None:
        return kind, ""
    parameters = inspect.signature(factory).parameters
    arguments = {name: value for name, value in section.items() if name in parameters}
    try:
        cohort = factory(**arguments)
    except (TypeError, ValueError):
        return kind, ""
    return kind, " and ".join(FEEDBACK[name] for name in cohort.feedback)
