"""The grid of a comparison: methods × variations, every cell of which runs under the same seeds."""

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.scenario import Scenario, read
from fedsim.scenario.merge import label_of, top_level
from fedsim.scenario.reader import Document, scalar
from fedsim.scenario.sections import Compare

MOST_CELLS = 10_000  # of a comparison; each holds a scenario of its own
MOST_RUNS = 100_000  # of a comparison, under all seeds


class Cell(NamedTuple):
    """One configuration of the grid.

    Attributes:
      method: label of the method.
      variant: joined label of what varies, `data.partition.alpha=0.1`; empty where nothing does.
      varied: path -> value as written.
      tuned: path -> value of what is tuned.
      scenario: as read, with all of it.
      edits: what was changed in the base scenario, as `--set` takes it.
      written: the method, in the form that it was given in.
    """

    method: str
    variant: str
    varied: dict[str, Any]
    tuned: dict[str, Any]
    scenario: Scenario
    edits: tuple[str, ...]
    written: Any

    @property
    def who(self) -> dict[str, Any]:
        """First columns of its rows."""
        variant = {"variant": self.variant, **self.varied} if self.varied else {}
        tuned = {"tuned": joined(self.tuned), **self.tuned} if self.tuned else {}
        return {"method": self.method, **variant, **tuned}


class Asked(NamedTuple):
    """A method of a comparison: `fedprox(mu=0.1)`, or the same with a label and values of its own.

    Attributes:
      method: in any of the forms that a scenario's `method:` takes; None: as the scenario stands.
      label: what stands in the `method` column.
      edits: `PATH=VALUE`, for this method alone.
    """

    method: Any
    label: str
    edits: tuple[str, ...] = ()

    @property
    def written(self) -> Any:
        """The form that `compare.methods` takes."""
        if isinstance(self.method, str) and self.label == label_of(self.method) and not self.edits:
            return self.method
        changed = {path: _value(text) for path, _, text in (edit.partition("=") for edit in self.edits)}
        return {"method": self.method, "label": self.label, **({"set": changed} if changed else {})}


def asked(written: str | Sequence[Any] | None) -> list[Asked]:
    """Methods as `--methods a,b(x=1)`, as a sequence, or as under `compare.methods`.

    >>> [method.label for method in asked("fedavg, fedprox(mu = 0.1), krum(f=2)")]
    ['fedavg', 'fedprox(mu=0.1)', 'krum(f=2)']
    """
    if written is None:
        return []
    entries = top_level(written) if isinstance(written, str) else list(written)
    return [_one(entry) for entry in entries]


def _one(entry: Any) -> Asked:
    if not isinstance(entry, dict) or "method" not in entry:
        return Asked(entry, label_of(entry))
    edits = tuple(f"{path}={_text(value)}" for path, value in (entry.get("set") or {}).items())
    label = label_of(entry["method"]) + "".join(f"[{edit}]" for edit in edits)
    return Asked(entry["method"], entry.get("label") or label, edits)


def variations(written: Sequence[str] | Mapping[str, Sequence[Any]], option: str = "--vary") -> list[dict[str, str]]:
    """`PATH=V1,V2` axes -> every combination, path -> value as text for `--set`.

    >>> variations(["data.partition.alpha=0.1,1", "cohort.size=5"])
    [{'data.partition.alpha': '0.1', 'cohort.size': '5'}, {'data.partition.alpha': '1', 'cohort.size': '5'}]
    """
    by_path = axes(written, option)
    demand_few(option, *map(len, by_path.values()))
    return [dict(zip(by_path, values, strict=True)) for values in itertools.product(*by_path.values())]


def demand_few(where: str, *counts: int, most: int = MOST_CELLS) -> None:
    """Refuse a product of so many values before it is expanded.

    Raises:
      ScenarioError: with the count and the bound.
    """
    if (count := math.prod(counts)) > most:
        factors = " x ".join(map(str, counts))
        what = f"{factors} = {count} combinations, more than can be played; at most {most}, compare less at a time"
        raise ScenarioError([Problem("", what)], where)


def axes(written: Sequence[str] | Mapping[str, Sequence[Any]], option: str = "--vary") -> dict[str, list[str]]:
    """`PATH=V1,V2` texts, or a mapping of path -> values, as path -> values as text for `--set`."""
    if isinstance(written, Mapping):
        found = {path: [_text(value) for value in values] for path, values in written.items()}
    else:
        found = {}
        for text in written:
            path, equals, values = text.partition("=")
            found[path.strip()] = top_level(values)
            if not equals or not found[path.strip()]:
                raise ScenarioError(
                    [Problem("", "write PATH=V1,V2,..., such as client.lr=0.01,0.1")], f"{option} {text}"
                )
    if "method" in found:
        raise ScenarioError([Problem("", "methods are compared by --methods")], f"{option} method")
    return found


def _text(value: Any) -> str:
    """A value as `--set` reads it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    words = {True: "true", False: "false", None: "null"}
    return words[value] if isinstance(value, bool) or value is None else str(value)


def joined(values: Mapping[str, Any]) -> str:
    """Paths and values as one label."""
    return ", ".join(f"{path}={value}" for path, value in values.items())


def grid(
    document: Document | Scenario,
    methods: Sequence[Asked],
    variants: Sequence[dict[str, str]],
    tunings: Sequence[dict[str, str]] = ({},),
) -> list[Cell]:
    """Every method under every variation and every setting to tune, read and checked; problems of all cells at once.

    Raises:
      ScenarioError: for methods or values that cannot be, or two methods under one label.
    """
    labels = [method.label for method in methods]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ScenarioError([Problem("", f"'{twice[0]}' is given twice; give one of them a label")], "--methods")
    demand_few("variations x methods x settings", len(variants), len(methods), len(tunings))
    cells, problems, file = [], [], "scenario"
    for varied, method, tuned in itertools.product(variants, methods, tunings):
        changed = (f"{path}={value}" for path, value in {**varied, **tuned}.items())
        edits = (*changed, *method.edits)
        try:
            scenario = read(document, edits, method.method)
        except ScenarioError as error:
            file = error.file
            problems += [problem for problem in error.problems if problem not in problems]
            continue
        cells.append(
            Cell(method.label, joined(varied), _values(varied), _values(tuned), scenario, edits, method.method)
        )
    if problems:
        raise ScenarioError(problems, file)
    return cells


def _values(written: Mapping[str, str]) -> dict[str, Any]:
    """Values of axes for their columns: numbers where they are numbers."""
    return {path: _value(text) for path, text in written.items()}


def _value(text: str) -> Any:
    with contextlib.suppress(ValueError):
        value = scalar(text)
        return value if isinstance(value, int | float | str) else text
    return text


def section_of(
    wanted: Sequence[Asked],
    vary: Mapping[str, Sequence[str]],
    tune: Mapping[str, Sequence[str]],
    baseline: str,
    score: Any,
) -> Compare:
    """What is compared, as the `compare` section of a scenario that says it all."""
    vary, tune = ({path: [_value(text) for text in texts] for path, texts in part.items()} for part in (vary, tune))
    return Compare(methods=[one.written for one in wanted], vary=vary, tune=tune, baseline=baseline, score=score)


def chosen_baseline(labels: Sequence[str], wanted: str | None) -> str:
    """The method that the others are compared with: the one that is named, else `fedavg`, else the first.

    Raises:
      ScenarioError: when there is no such method.
    """
    if wanted is None:
        return "fedavg" if "fedavg" in labels else labels[0]
    wanted = label_of(wanted)
    if wanted not in labels:
        raise ScenarioError(
            [Problem("", f"no method '{wanted}' is compared{did_you_mean(wanted, labels)}")], "--baseline"
        )
    return wanted
