"""The methods of a comparison: as they are written, what they are called, and which one the others are compared with."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.scenario.merge import label_of
from fedsim.scenario.reader import scalar
from fedsim.scenario.shorthand import top_level


class ComparedMethod(NamedTuple):
    """A method of a comparison: `fedprox(mu=0.1)`, or the same with a label and values for it alone."""

    method: Any  # in any of the forms that a scenario's `method:` takes; None: as the scenario stands
    label: str  # what stands in the `method` column
    edits: tuple[str, ...] = ()  # `PATH=VALUE`, for this method alone

    @property
    def written(self) -> Any:
        """The form that `compare.methods` takes."""
        if isinstance(self.method, str) and self.label == label_of(self.method) and not self.edits:
            return self.method
        changed = {path: value_of(text) for path, _, text in (edit.partition("=") for edit in self.edits)}
        return {"method": self.method, "label": self.label, **({"set": changed} if changed else {})}


def methods_of(written: str | Sequence[Any] | None) -> list[ComparedMethod]:
    """Methods as `--methods a,b(x=1)`, as a sequence, or as under `compare.methods`.

    >>> [method.label for method in methods_of("fedavg, fedprox(mu = 0.1), krum(f=2)")]
    ['fedavg', 'fedprox(mu=0.1)', 'krum(f=2)']
    """
    if written is None:
        return []
    return [_method(entry) for entry in (top_level(written) if isinstance(written, str) else written)]


def _method(entry: Any) -> ComparedMethod:
    if not isinstance(entry, dict) or "method" not in entry:
        return ComparedMethod(entry, label_of(entry))
    edits = tuple(f"{path}={text_of(value)}" for path, value in (entry.get("set") or {}).items())
    label = label_of(entry["method"]) + "".join(f"[{edit}]" for edit in edits)
    return ComparedMethod(entry["method"], entry.get("label") or label, edits)


def baseline_of(labels: Sequence[str], wanted: str | None) -> str:
    """The method that the others are compared with: the one that is named, else `fedavg`, else the first.

    Raises:
      ScenarioError: when there is no such method.
    """
    if wanted is None:
        return "fedavg" if "fedavg" in labels else labels[0]
    wanted = label_of(wanted)
    if wanted not in labels:
        problem = Problem("", f"no method '{wanted}' is compared{did_you_mean(wanted, labels)}")
        raise ScenarioError([problem], "--baseline")
    return wanted


def text_of(value: Any) -> str:
    """A value as `--set` reads it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {text_of(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    words = {True: "true", False: "false", None: "null"}
    return words[value] if isinstance(value, bool) or value is None else str(value)


def value_of(text: str) -> Any:
    """A text of `--set` as a value for a column: a number where it is one."""
    with contextlib.suppress(ValueError):
        value = scalar(text)
        return value if isinstance(value, int | float | str) else text
    return text
