"""The design of a comparison: a grid of methods × variations, every cell of which runs under the same seeds."""

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.build.links import factory_of
from fedsim.errors import Problem, ScenarioError
from fedsim.scenario import Scenario, read
from fedsim.scenario.reader import Document
from fedsim.scenario.sections import Compare
from fedsim.scenario.shorthand import top_level
from fedsim.study.methods import ComparedMethod, baseline_of, methods_of, text_of, value_of
from fedsim.study.summary import SCORES
from fedsim.types import OWN_SAMPLES

MOST_CELLS = 10_000  # of a comparison; each holds a scenario of its own
MOST_RUNS = 100_000  # of a comparison, under all seeds

Axes = Sequence[str] | Mapping[str, Sequence[Any]]  # `PATH=V1,V2` texts, or path -> values


class Cell(NamedTuple):
    """One configuration of the grid."""

    method: str  # label of the method
    variant: str  # joined label of what varies, `data.partition.alpha=0.1`; empty where nothing does
    varied: dict[str, Any]  # path -> value as written
    tuned: dict[str, Any]  # path -> value of what is tuned
    scenario: Scenario  # as read, with all of it
    edits: tuple[str, ...]  # what was changed in the base scenario, as `--set` takes it
    written: Any  # the method, in the form that it was given in, with one value of what is tuned of it

    @property
    def who(self) -> dict[str, Any]:
        """First columns of its rows."""
        variant = {"variant": self.variant, **self.varied} if self.varied else {}
        tuned = {"tuned": joined(self.tuned), **self.tuned} if self.tuned else {}
        return {"method": self.method, **variant, **tuned}


class Design(NamedTuple):
    """A comparison as it was described."""

    scenario: Scenario  # without its grid, and with all that is compared in its `compare` section
    cells: list[Cell]  # of the grid
    baseline: str  # label of the method that the others are compared with
    score: str  # what of a run is compared


def design_of(
    scenario: Scenario,
    methods: str | Sequence[Any] | None = None,
    vary: Axes | None = None,
    tune: Axes | None = None,
    baseline: str | None = None,
    score: str | None = None,
) -> Design:
    """A comparison, read and checked; arguments as of `fedsim.compare`.

    Raises:
      ScenarioError: for a method, axis, baseline or score that cannot be.
    """
    section = scenario.spec.compare
    compared = methods_of(section.methods if methods is None else methods)
    if not compared:
        problem = "no methods to compare; name them: --methods fedavg,fedadam (fedsim list methods), or compare.methods"
        raise ScenarioError([Problem("compare.methods", problem)], scenario.document.file)
    varied, tuned = axes(vary or section.vary), axes(tune or section.tune, "--tune")
    if tuned or any(method.grid for method in compared):
        _demand_validation(scenario)
    _demand_apart(varied, tuned, compared)
    variants, settings = variations(varied, "compare.vary"), variations(tuned, "compare.tune")
    counts = len(scenario.spec.seeds), len(variants), _with_settings(compared), len(settings)
    demand_few("seeds x variations x methods x settings", *counts, most=MOST_RUNS)
    cells = _under_one_split(scenario.document, grid(scenario.document, compared, variants, settings))
    score = score or section.score
    if score not in SCORES:
        raise ScenarioError([Problem("", f"should be one of {', '.join(SCORES)}, found '{score}'")], "--score")
    baseline = baseline_of([method.label for method in compared], baseline or section.baseline)
    complete = Compare(
        methods=[method.written for method in compared],
        vary={path: list(map(value_of, texts)) for path, texts in varied.items()},
        tune={path: list(map(value_of, texts)) for path, texts in tuned.items()},
        baseline=baseline,
        score=score,
    )
    described = scenario._replace(spec=scenario.spec.model_copy(update={"compare": complete}))
    return Design(described, cells, baseline, score)


def _demand_validation(scenario: Scenario) -> None:
    """What settings are chosen on."""
    if not scenario.spec.data.validation:
        problem = "what is tuned is chosen on validation data; set data.validation=0.1"
        raise scenario.error(("data", "validation"), problem)
    if scenario.spec.evaluate.metric == "attack_success":
        problem = "what is tuned is chosen on validation data, where no attack is tried; write test_accuracy"
        raise scenario.error(("evaluate", "metric"), problem)


def _under_one_split(document: Document, cells: list[Cell]) -> list[Cell]:
    """Cells whose server keeps samples and reads none: each says in `compare.methods` with which rules that read them it is
    compared. So all train on the same samples, and keeping them is refused where there is no such rule.
    """
    keeping = [cell.scenario.spec.data.server.samples > 0 for cell in cells]
    rules = [keeps and _reader(cell.scenario.spec) for cell, keeps in zip(cells, keeping, strict=True)]
    company = f"compare.methods={text_of(sorted({rule for rule in rules if rule}))}"
    settled = []
    for cell, keeps, rule in zip(cells, keeping, rules, strict=True):
        if keeps and not rule:
            edits = (*cell.edits, company)
            cell = cell._replace(edits=edits, scenario=read(document, edits, cell.written))
        settled.append(cell)
    return settled


def _reader(spec: Any) -> str:
    """The rule, where it reads samples that the server keeps; one that cannot be made is refused when the cell is built."""
    rule = next(link for link in spec.server if link.family == "rule")
    with contextlib.suppress(ValueError):
        return rule.kind if factory_of(rule)().needs & OWN_SAMPLES else ""
    return ""


def _demand_apart(varied: Mapping, tuned: Mapping, methods: Sequence[ComparedMethod]) -> None:
    """Refuse a path that is varied and tuned, or tuned with all methods and with one of them."""
    for grid, others, where in [(tuned, varied, "--tune"), *((m.grid, {**varied, **tuned}, m.label) for m in methods)]:
        for path in sorted(grid.keys() & others.keys()):
            done = "varied" if path in varied else "tuned with all methods"
            raise ScenarioError([Problem("", f"{path} is {done} already; take out one of them")], where)


def _with_settings(methods: Sequence[ComparedMethod]) -> int:
    """How many methods there are, each as often as it has settings of its own."""
    return sum(math.prod(map(len, method.grid.values())) for method in methods)


def axes(written: Axes, option: str = "--vary") -> dict[str, list[str]]:
    """`PATH=V1,V2` texts, or a mapping of path -> values, as path -> values as text for `--set`."""
    by_path: dict[str, list[str]] = {}
    if isinstance(written, Mapping):
        by_path = {path: [text_of(value) for value in values] for path, values in written.items()}
    else:
        for text in written:
            path, equals, values = text.partition("=")
            by_path[path.strip()] = top_level(values)
            if not equals or not by_path[path.strip()]:
                problem = Problem("", "write PATH=V1,V2,..., such as client.lr=0.01,0.1")
                raise ScenarioError([problem], f"{option} {text}")
    if "method" in by_path:
        raise ScenarioError([Problem("", "methods are compared by --methods")], f"{option} method")
    return by_path


def variations(written: Axes, option: str = "--vary") -> list[dict[str, str]]:
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
        product = f"{' x '.join(map(str, counts))} = {count} combinations"
        problem = Problem("", f"{product}, more than can be played; at most {most}, compare less at a time")
        raise ScenarioError([problem], where)


def joined(values: Mapping[str, Any]) -> str:
    """Paths and values as one label."""
    return ", ".join(f"{path}={value}" for path, value in values.items())


def grid(
    document: Document | Scenario,
    methods: Sequence[ComparedMethod],
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
    demand_few("variations x methods x settings", len(variants), _with_settings(methods), len(tunings))
    cells, problems, file = [], [], "scenario"
    several = [(method, *setting) for method in methods for setting in method.settings()]
    for varied, (method, written, tuned_alone), shared in itertools.product(variants, several, tunings):
        tuned = {**shared, **tuned_alone}
        changed = {**varied, **shared}, {path: tuned_alone[path] for path in method.tune}
        before, after = ([f"{path}={value}" for path, value in values.items()] for values in changed)
        edits = (*before, *method.edits, *after)
        try:
            cell = Cell(
                method=method.label,
                variant=joined(varied),
                varied={path: value_of(text) for path, text in varied.items()},
                tuned={path: value_of(text) for path, text in tuned.items()},
                scenario=read(document, edits, written),
                edits=edits,
                written=written,
            )
            cells.append(cell)
        except ScenarioError as error:
            file = error.file
            problems += [problem for problem in error.problems if problem not in problems]
    if problems:
        raise ScenarioError(problems, file)
    return cells
