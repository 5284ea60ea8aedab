"""One run in one tracker: what it is made from, and what it is given."""

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fedsim.errors import shortened
from fedsim.runs.filenames import RunFiles


class TrackedRun(NamedTuple):
    """A run as it is presented to a tracker."""

    run_files: RunFiles
    label: str  # method and variation
    seed: int
    config: dict[str, Any]  # the resolved scenario, and the seed
    resume: bool
    session: int = 0  # number of the command in this process

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.run_files.path

    @property
    def name(self) -> str:
        """A name for people to read."""
        return f"{shortened(self.label, 100)}.{self.seed}"


class Tracker(Protocol):
    """One run in one tracker; it begins when the object is made."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """Log the numbers of an evaluated round."""

    def close(self, summary: dict[str, Any] | None) -> None:
        """End the run with the entries of its summary; None: it was interrupted, or failed."""


def flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested values by dotted path; lists become JSON, and None is left out.

    >>> flat({"rounds": 5, "client": {"lr": 0.1, "decay": None}, "seeds": [0, 1]})
    {'rounds': 5, 'client.lr': 0.1, 'seeds': '[0, 1]'}
    """
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, dict):
            by_path |= flat(value, f"{path}.")
        elif isinstance(value, str | int | float):
            by_path[path] = value
        elif value is not None:
            by_path[path] = json.dumps(value)
    return by_path


def numbers(values: dict[str, Any]) -> dict[str, float]:
    """The entries that are numbers."""
    return {name: value for name, value in values.items() if isinstance(value, int | float)}
