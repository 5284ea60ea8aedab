"""The methods of a comparison: how they are given, their labels, and which one is the baseline."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.scenario.merge import label_of
from fedsim.scenario.methods import BASELINES
from fedsim.scenario.ranges import is_range, range_of
from fedsim.scenario.reader import scalar
from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.summary import OF_ROUNDS, OWN, of_own_models
from fedsim.study.words import call_of, path_and_value

CALL = re.compile(r"([^()]*)\((.*)\)\s*", re.DOTALL)  # `name(a=1)`, whatever is in the brackets
KEYS = ("method", "label", "set", "tune")  # of an entry of `compare.methods` that is a mapping
DEFAULT_BASELINE = "fedavg"
TUNED = "tuned"  # what labels say in place of several values


class ComparedMethod(NamedTuple):
    """A method of a comparison: `fedprox(mu=0.1|1)`, or the same with a label and its own values.

    Attributes:
      method: in any of the forms that a scenario's `method:` takes; None for the scenario as it is.
      label: its name in the column `method`.
      edits: `PATH=VALUE` texts that are applied for this method alone.
      tune: path -> values as text, or a range, that this method alone is tried with.
    """

    method: Any
    label: str
    edits: tuple[str, ...] = ()
    tune: Mapping[str, Sequence[str]] = {}

    @property
    def entry(self) -> Any:
        """The method as an entry of `compare.methods`."""
        is_plain = isinstance(self.method, str) and self.label == label_of(self.method)
        if is_plain and not self.edits and not self.tune:
            return self.method
        entry: dict[str, Any] = {"method": self.method, "label": self.label}
        if self.edits:
            edits = [edit.partition("=") for edit in self.edits]
            entry["set"] = {path: value_of(text) for path, _, text in edits}
        if self.tune:
            entry["tune"] = {path: values_of_axis(texts) for path, texts in self.tune.items()}
        return entry

    @property
    def grid(self) -> dict[str, Sequence[str]]:
        """What is tuned for this method alone: path -> values as text.

        Its hyper-parameters have the path `method.NAME`.
        """
        several = alternatives(self.method) if isinstance(self.method, str) else {}
        return {**{f"method.{name}": values for name, values in several.items()}, **self.tune}


def methods_of(methods: str | Sequence[Any] | None) -> list[ComparedMethod]:
    """Return methods from `--methods a,b(x=1)`, a sequence, or the value of `compare.methods`.

    >>> [method.label for method in methods_of("fedavg, fedprox(mu = 0.1), krum(f=2)")]
    ['fedavg', 'fedprox(mu=0.1)', 'krum(f=2)']
    """
    return [_method(entry) for entry in entries_of(methods)]


def entries_of(methods: str | Sequence[Any] | None) -> list[Any]:
    """Return the entries of `--methods` or of `compare.methods`."""
    if isinstance(methods, str):
        return split_at_commas(methods)
    return list(methods or ())


def _method(entry: Any) -> ComparedMethod:
    """The method of an entry."""
    if not isinstance(entry, dict) or "method" not in entry:
        return ComparedMethod(entry, _label(entry))
    _demand_form(entry)
    changes = entry.get("set") or {}
    grid = entry.get("tune") or {}

    label = entry.get("label")
    if not label:
        label = _label(entry["method"])
        for path, value in changes.items():
            label += f"[{path}={_in_short(value)}]"

    edits = [f"{path}={text_of(value)}" for path, value in changes.items()]
    tune = {str(path): texts_of_axis(values) for path, values in grid.items()}
    return ComparedMethod(entry["method"], str(label), tuple(edits), tune)


def _label(method: Any) -> str:
    """The name of a method: its text without spaces, and `tuned` for what several values are tried.

    The values that are chosen are in the column `tuned`; they may differ between variations.
    """
    if not isinstance(method, str):
        return label_of(method)
    tuned = {f"method.{name}": TUNED for name in alternatives(method)}
    return label_of(with_setting(method, tuned))


def _demand_form(entry: Mapping[Any, Any]) -> None:
    """Refuse a mapping that is not of the form `{method, label, set: {...}, tune: {...}}`."""
    problems = []
    for key in entry:
        if key not in KEYS:
            problems.append(f"no key '{key}'{did_you_mean(str(key), KEYS)}")
    changes = entry.get("set") or {}
    if not isinstance(changes, Mapping):
        problems.append(f"set should be values by path, {{PATH: VALUE}}, found {changes!r}")
    grid = entry.get("tune") or {}
    if _is_grid(grid):
        problems += problems_of_ranges(grid)
    else:
        problems.append(
            f"tune should be lists of values by path, {{PATH: [V1, V2]}}, or ranges, found {grid!r}"
        )
    refuse(problems, "compare.methods")


def _is_grid(value: Any) -> bool:
    """Whether a value is a mapping of texts, and of lists that are not empty."""
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(texts, list | tuple | str) and texts for texts in value.values())


def alternatives(call: str) -> dict[str, list[str]]:
    """Return the hyper-parameters with several values, `name(a=1|2)`: name -> values as text.

    Those with a range, `name(a=log(1e-3, 1))`, have it as their only value.

    Raises:
      ScenarioError: if one of the values is empty, or a range cannot be read.
    """
    match = CALL.fullmatch(call)
    if match is None:
        return {}
    several = {}
    for argument in split_at_commas(match[2]):
        name, text = path_and_value(argument)
        if is_range(text) or "|" in text:
            several[name] = [value.strip() for value in text.split("|")]
    problems = []
    for name, values in several.items():
        if not all(values):
            problems.append(f"{name} has an empty value; write values with | between them: a=1|2")
    refuse(problems or problems_of_ranges(several), f"--methods {call}")
    return several


def with_setting(method: Any, setting: Mapping[str, str]) -> Any:
    """Return a method with one value of each hyper-parameter that has several.

    Args:
      setting: path -> value as text; the paths `method.NAME` are hyper-parameters.
    """
    match = CALL.fullmatch(method) if isinstance(method, str) else None
    if match is None or not any(path.startswith("method.") for path in setting):
        return method
    arguments = []
    for argument in split_at_commas(match[2]):
        name, _ = path_and_value(argument)
        value = setting.get(f"method.{name}")
        arguments.append(argument if value is None else f"{name}={value}")
    return f"{match[1].strip()}({', '.join(arguments)})"


def with_baselines(methods: Sequence[ComparedMethod]) -> list[ComparedMethod]:
    """Return methods, followed by those of `BASELINES` that are not among them."""
    kinds = {kind_of(method) for method in methods}
    missing = [name for name in BASELINES if name not in kinds]
    return [*methods, *methods_of(missing)]


def kind_of(method: ComparedMethod) -> str:
    """Return a method's name without hyper-parameters; empty for the scenario as it is."""
    if isinstance(method.method, Mapping):
        return str(method.method.get("kind"))
    return re.split(r"\s*\(", str(method.method or "").strip(), maxsplit=1)[0]


def baseline_of(methods: Sequence[ComparedMethod], wanted: str | None) -> str:
    """Return the label of the method that the others are compared with.

    It is the wanted one, or else `fedavg`, or else the first federated one.

    Args:
      wanted: a label, or a method in another form; None if it is not given.

    Raises:
      ScenarioError: if there is no such method.
    """
    labels = [method.label for method in methods]
    if wanted is None:
        federated = [method.label for method in methods if kind_of(method) not in BASELINES]
        return DEFAULT_BASELINE if DEFAULT_BASELINE in labels else [*federated, *labels][0]
    label = wanted if wanted in labels else _label(wanted)
    if label not in labels:
        refuse([f"no method '{label}' is compared{did_you_mean(label, labels)}"], "--baseline")
    return label


def score_against(baseline: ComparedMethod, metric: str, score: str) -> str:
    """Return the score that is compared: that of own models where the baseline trains alone."""
    is_scored = kind_of(baseline) != "local_only" or of_own_models(metric)
    if is_scored or score == OWN:
        return score
    if score != OF_ROUNDS[0]:
        text = f"{baseline.label} trains no shared model, which {score} {metric} is about"
        refuse([f"{text}; write {OWN}"], "--score")
    return OWN


def texts_of_axis(values: str | Sequence[Any]) -> list[str]:
    """Return the values of an axis as `--set` reads them; a range is the only one.

    >>> texts_of_axis([0.1, True]), texts_of_axis("log(1e-3, 1)")
    (['0.1', 'true'], ['log(1e-3, 1)'])
    """
    if isinstance(values, str):
        return [values]
    return [text_of(value) for value in values]


def values_of_axis(texts: Sequence[str]) -> list[Any] | str:
    """Return an axis as `compare.tune` has it: a list of values, or a range."""
    if is_drawn(texts):
        return texts[0]
    return [value_of(text) for text in texts]


def is_drawn(texts: Sequence[str]) -> bool:
    """Return whether the values of an axis are a range, `["log(1e-3, 1)"]`."""
    return len(texts) == 1 and is_range(texts[0])


def problems_of_ranges(axes: Mapping[str, Any]) -> list[str]:
    """Return a line for every path whose values are a text, or a range, that cannot be read."""
    problems = []
    for path, values in axes.items():
        if isinstance(values, str) or is_drawn(values):
            try:
                range_of(values if isinstance(values, str) else values[0])
            except ValueError as error:
                problems.append(f"{path} {error}")
    return problems


def refuse(problems: Sequence[str], where: str) -> None:
    """Raise `ScenarioError` with a line for every problem; do nothing if there is none."""
    if problems:
        raise ScenarioError([Problem("", text) for text in problems], where)


def _in_short(value: Any) -> str:
    """A value in a label: links as calls, anything else as `--set` reads it."""
    links = value if isinstance(value, list) else [value]
    if links and all(isinstance(link, dict) and "kind" in link for link in links):
        return call_of(value)
    return text_of(value)


def text_of(value: Any) -> str:
    """Return a value as `--set` reads it.

    >>> text_of({"kind": "top_k", "k": 9, "values": None})
    '{kind: top_k, k: 9, values: null}'
    """
    if isinstance(value, dict):
        items = [f"{name}: {text_of(item)}" for name, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value)


def value_of(text: str) -> Any:
    """Return a text of `--set` as a value for a column: a number if it is one."""
    with contextlib.suppress(ValueError):
        value = scalar(text)
        if isinstance(value, int | float | str):
            return value
    return text
