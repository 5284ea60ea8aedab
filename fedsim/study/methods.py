"""The methods of a comparison: as they are written, what they are called, and which one the others are compared with."""

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.scenario.merge import label_of
from fedsim.scenario.reader import scalar
from fedsim.scenario.shorthand import top_level
from fedsim.study.words import call_of

CALL = re.compile(r"([^()]*)\((.*)\)\s*", re.DOTALL)  # `name(a=1)`, whatever stands in it


class ComparedMethod(NamedTuple):
    """A method of a comparison: `fedprox(mu=0.1|1)`, or the same with a label and values for it alone."""

    method: (
        Any  # in any of the forms that a scenario's `method:` takes; None: as the scenario stands
    )
    label: str  # what stands in the `method` column
    edits: tuple[str, ...] = ()  # `PATH=VALUE`, for this method alone
    tune: Mapping[str, Sequence[str]] = {}  # path -> values as text, tried with this method alone

    @property
    def written(self) -> Any:
        """The form that `compare.methods` takes."""
        if isinstance(self.method, str) and self.label == label_of(self.method) and not self.edits:
            return self.method
        changed = {
            path: value_of(text) for path, _, text in (edit.partition("=") for edit in self.edits)
        }
        tried = {path: [value_of(text) for text in texts] for path, texts in self.tune.items()}
        more = {"set": changed, "tune": tried}
        return {
            "method": self.method,
            "label": self.label,
            **{name: value for name, value in more.items() if value},
        }

    @property
    def grid(self) -> dict[str, Sequence[str]]:
        """What is tuned of this method alone, path -> values; of its hyper-parameters by the path `method.NAME`."""
        hyperparameters = alternatives(self.method) if isinstance(self.method, str) else {}
        return {
            **{f"method.{name}": values for name, values in hyperparameters.items()},
            **self.tune,
        }

    def settings(self) -> list[tuple[Any, dict[str, str]]]:
        """Every setting of it alone: (the method with it, path -> value as text); a single one where nothing is tuned."""
        paths, grid = list(self.grid), self.grid.values()
        chosen = [dict(zip(paths, values, strict=True)) for values in itertools.product(*grid)]
        return [(_with(self.method, tuned), tuned) for tuned in chosen]


def methods_of(written: str | Sequence[Any] | None) -> list[ComparedMethod]:
    """Methods as `--methods a,b(x=1)`, as a sequence, or as under `compare.methods`.

    >>> [method.label for method in methods_of("fedavg, fedprox(mu = 0.1), krum(f=2)")]
    ['fedavg', 'fedprox(mu=0.1)', 'krum(f=2)']
    """
    return [_method(entry) for entry in entries_of(written)]


def entries_of(written: str | Sequence[Any] | None) -> list[Any]:
    """The entries of `--methods` or of `compare.methods`, as they are written."""
    return top_level(written) if isinstance(written, str) else list(written or ())


def _method(entry: Any) -> ComparedMethod:
    if not isinstance(entry, dict) or "method" not in entry:
        return ComparedMethod(entry, label_of(entry))
    _demand_form(entry)
    edits = tuple(f"{path}={text_of(value)}" for path, value in (entry.get("set") or {}).items())
    tune = {
        str(path): [*map(text_of, values)] for path, values in (entry.get("tune") or {}).items()
    }
    changes = (entry.get("set") or {}).items()
    label = label_of(entry["method"]) + "".join(
        f"[{path}={_in_short(value)}]" for path, value in changes
    )
    return ComparedMethod(entry["method"], str(entry.get("label") or label), edits, tune)


def _demand_form(entry: Mapping[Any, Any]) -> None:
    """Refuse a mapping that is no `{method: ..., label: ..., set: {PATH: VALUE}, tune: {PATH: [VALUES]}}`."""
    known = ("method", "label", "set", "tune")
    problems = [
        f"no key '{key}'{did_you_mean(str(key), known)}" for key in entry if key not in known
    ]
    changed, tried = entry.get("set") or {}, entry.get("tune") or {}
    if not isinstance(changed, Mapping):
        problems.append(f"set should be values by path, {{PATH: VALUE}}, found {changed!r}")
    if not isinstance(tried, Mapping) or not all(
        isinstance(values, list | tuple) and values for values in tried.values()
    ):
        problems.append(
            f"tune should be lists of values by path, {{PATH: [V1, V2]}}, found {tried!r}"
        )
    if problems:
        raise ScenarioError([Problem("", text) for text in problems], "compare.methods")


def alternatives(written: str) -> dict[str, list[str]]:
    """The hyper-parameters of a method that are given several values, `name(a=1|2)`: name -> these as text.

    Raises:
      ScenarioError: where one of them is empty.

    >>> alternatives("fedadam(lr=0.01|0.1, tau=0.1)"), alternatives("fedavg")
    ({'lr': ['0.01', '0.1']}, {})
    """
    match, several = CALL.fullmatch(written), {}
    for part in top_level(match[2]) if match else []:
        name, _, values = part.partition("=")
        if "|" in values:
            several[name.strip()] = [value.strip() for value in values.split("|")]
            if not all(several[name.strip()]):
                problem = Problem(
                    "",
                    f"{name.strip()} has an empty value; write values with | between them: a=1|2",
                )
                raise ScenarioError([problem], f"--methods {written}")
    return several


def _with(method: Any, tuned: Mapping[str, str]) -> Any:
    """A method with one value of each hyper-parameter that is given several."""
    match = CALL.fullmatch(method) if isinstance(method, str) else None
    if not match or not any(path.startswith("method.") for path in tuned):
        return method
    names = [part.partition("=")[0].strip() for part in top_level(match[2])]
    parts = [
        f"{n}={tuned[p]}" if (p := f"method.{n}") in tuned else part
        for n, part in zip(names, top_level(match[2]), strict=True)
    ]
    return f"{match[1].strip()}({', '.join(parts)})"


def baseline_of(labels: Sequence[str], wanted: str | None) -> str:
    """The method that the others are compared with: the one that is named, else `fedavg`, else the first.

    Raises:
      ScenarioError: when there is no such method.
    """
    if wanted is None:
        return "fedavg" if "fedavg" in labels else labels[0]
    wanted = wanted if wanted in labels else label_of(wanted)
    if wanted not in labels:
        problem = Problem("", f"no method '{wanted}' is compared{did_you_mean(wanted, labels)}")
        raise ScenarioError([problem], "--baseline")
    return wanted


def _in_short(value: Any) -> str:
    """A value in a label: links as they are written in short, anything else as `--set` reads it.

    >>> _in_short([{"kind": "top_k", "k": 9}]), _in_short([1, 2]), _in_short([])
    ('top_k(k=9)', '[1, 2]', '[]')
    """
    links = value if isinstance(value, list) else [value]
    return (
        call_of(value)
        if links and all(isinstance(one, dict) and "kind" in one for one in links)
        else text_of(value)
    )


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
