"""A caution about cohorts that are not the same for all methods, although the seeds are."""

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any

import fedsim.fleet  # noqa: F401 (importing a family registers its members)
from fedsim.compose import FAMILIES
from fedsim.fleet.selection import FEEDBACK

DEPEND = "Cohorts of {kind} depend on {feedback}, so they are not paired between methods."


def unpaired_lines(scenario: Mapping[str, Any] | None) -> list[str]:
    """Return a sentence for every cohort that depends on what clients reported; none for others.

    What clients report depends on the method, and so do such cohorts.
    """
    scenario = scenario or {}
    base = dict(scenario.get("cohort") or {})
    varied = (scenario.get("compare") or {}).get("vary") or {}
    sections = [base]
    for value in varied.get("cohort", ()):
        sections.append(dict(value) if isinstance(value, Mapping) else {"kind": value})
    for kind in varied.get("cohort.kind", ()):
        sections.append({**base, "kind": kind})

    lines = []
    for kind, names in sorted({str(one.get("kind")): _feedback(one) for one in sections}.items()):
        if names:
            words = " and ".join(FEEDBACK[name] for name in names)
            lines.append(DEPEND.format(kind=kind, feedback=words))
    return lines


def _feedback(section: Mapping[str, Any]) -> tuple[str, ...]:
    """What a cohort reads of clients' reports; nothing if it cannot be made."""
    factory = FAMILIES["cohort"].get(str(section.get("kind")))
    if factory is not None:
        parameters = inspect.signature(factory).parameters
        with contextlib.suppress(TypeError, ValueError):
            return factory(**{k: v for k, v in section.items() if k in parameters}).feedback
    return ()
