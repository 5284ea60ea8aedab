"""One run in one tracker: what it is made from, and what it takes."""

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fedsim.errors import shortened
from fedsim.runs.filenames import Layout


class TrackedRun(NamedTuple):
    """A run as a tracker gets to know it.

    Attributes:
      layout: of the run directory.
      label: of method and variation.
      seed: of the run.
      config: the resolved scenario, and the seed.
      resume: whether the command goes on with what is there.
      session: number of the command in this process.
    """

    layout: Layout
    label: str
    seed: int
    config: dict[str, Any]
    resume: bool
    session: int = 0

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.layout.path

    @property
    def name(self) -> str:
        """For people to read."""
        return f"{shortened(self.label, 100)}.{self.seed}"


class Tracker(Protocol):
    """One run in one tracker; it begins when it is made."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """The numbers of an evaluated round."""

    def close(self, summary: dict[str, Any] | None) -> None:
        """The run has ended with these entries of its summary; None: it was interrupted, or failed."""


def flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested values by dotted path; lists as JSON, what is not set left out.

    >>> flat({"rounds": 5, "client": {"lr": 0.1, "decay": None}, "seeds": [0, 1]})
    {'rounds': 5, 'client.lr': 0.1, 'seeds': '[0, 1]'}
    """
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            by_path |= flat(value, f"{above}{name}.")
        elif value is not None:
            by_path[f"{above}{name}"] = (
                value if isinstance(value, str | int | float) else json.dumps(value)
            )
    return by_path


def numbers(values: dict[str, Any]) -> dict[str, float]:
    """Those entries that can be drawn."""
    return {name: value for name, value in values.items() if isinstance(value, int | float)}
