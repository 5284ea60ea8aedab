"""How runs ended, on the page: what is unfinished, why runs failed, and notes on the others.

Reasons are never folded away.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.report.mark import unfinished_mark

ENDED = {
    "done": "",
    "incomplete": "not all of these runs ended as planned",
    "stopped": "stopped before its last round",
    "not_run": "not run: no round was aggregated",
}
NAMED = 3  # runs of the same reason that are named; more are counted

Labelled = tuple[str, Mapping[str, Any]]
"""the label of a run on the page, or nothing, and the content of its `run.json`"""


def marks(records: Sequence[Labelled]) -> list[str]:
    """A line for every run that has not ended, or did not end as planned."""
    lines = []
    for label, record in records:
        status = record["status"]
        text = unfinished_mark(record) or ENDED.get(status, f"ended as {status}")
        if text and label:
            text = f"{label}: {text}"
        if text:
            lines.append(text)
    return lines


def reasons(records: Sequence[Labelled]) -> list[str]:
    """Why runs did not end as planned, a line for every reason, with the runs that have it."""
    return _remarks(records, "reasons")


def notes(records: Sequence[Labelled]) -> list[str]:
    """Notes on runs that ended as planned, likewise."""
    return _remarks(records, "notes")


def _remarks(records: Sequence[Labelled], kind: str) -> list[str]:
    runs_of: dict[str, list[str]] = {}  # runs by text
    for label, record in records:
        start = f"{label}, " if label else ""
        seed = "" if record.get("kind") == "compare" else "seed "
        for run, text in record.get(kind, {}).items():
            runs_of.setdefault(text, []).append(f"{start}{seed}{run}")
    return [f"{_listed(runs)}: {text}" for text, runs in runs_of.items()]


def _listed(runs: Sequence[str]) -> str:
    """The first runs by name, the others as a number.

    >>> _listed(["seed 0", "seed 1"]), _listed(["a", "b", "c", "d", "e"])
    ('seed 0; seed 1', 'a; b; c and 2 more runs')
    """
    names = "; ".join(runs[:NAMED])
    others = len(runs) - NAMED
    if others <= 0:
        return names
    return f"{names} and {others} more {'run' if others == 1 else 'runs'}"
