"""The design of a comparison: a grid of methods × variations, every cell of which runs under the same seeds."""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.assemble.links import factory_of
from fedsim.errors import Problem, ScenarioError
from fedsim.scenario import Scenario, read
from fedsim.scenario.diagnostics import in_order, problem_at
from fedsim.scenario.reader import Document
from fedsim.scenario.sections import Compare
from fedsim.scenario.shorthand import top_level
from fedsim.study.cells import OPTIONS, Axes, Cell, Corner, Places, Refused, bare, placed
from fedsim.study.methods import (
    ComparedMethod,
    baseline_of,
    entries_of,
    methods_of,
    text_of,
    value_of,
)
from fedsim.study.summary import SCORES
from fedsim.types import OWN_SAMPLES

MOST_CELLS = 10_000  # of a comparison; each holds a scenario of its own
MOST_RUNS = 100_000  # of a comparison, under all seeds


class Design(NamedTuple):
    """A comparison as it was described."""

    scenario: Scenario  # without its grid, and with all that is compared in its `compare` section
    cells: list[Cell]  # of the grid
    baseline: str  # label of the method that the others are compared with
    score: str  # what of a run is compared


class Draft(NamedTuple):
    """A comparison as far as it can be read."""

    design: Design | None  # None where anything is wrong
    problems: list[Problem]
    cells: list[Cell]  # all that can be looked at further; of refused ones what is left of them
    places: Places  # of the parts of their names


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
    draft = draft_of(scenario, methods, vary, tune, baseline, score)
    if draft.problems:
        raise ScenarioError(in_order(scenario.document, draft.problems), scenario.document.file)
    assert draft.design is not None
    return draft.design


def draft_of(
    scenario: Scenario,
    methods: str | Sequence[Any] | None = None,
    vary: Axes | None = None,
    tune: Axes | None = None,
    baseline: str | None = None,
    score: str | None = None,
) -> Draft:
    """A comparison as far as it can be read, with everything that is wrong with it; arguments as of `design_of`."""
    section = scenario.spec.compare
    gathered = Gathered(
        scenario.document, methods=methods is not None, vary=bool(vary), tune=bool(tune)
    )
    compared = gathered.methods(section.methods if methods is None else methods)
    if not compared and not gathered.problems:
        problem = "no methods to compare; name them: --methods fedavg,fedadam (fedsim list methods), or compare.methods"
        gathered.problems.append(Problem("compare.methods", problem))
    varied = gathered.attempt("vary", axes, vary or section.vary) or {}
    tuned = gathered.attempt("tune", axes, tune or section.tune, "--tune") or {}
    if tuned or any(method.grid for method in compared):
        gathered.attempt("", _demand_validation, scenario)
    gathered.attempt("", _demand_apart, varied, tuned, compared)
    variants = gathered.attempt("vary", variations, varied, "compare.vary") or []
    settings = gathered.attempt("tune", variations, tuned, "compare.tune") or []
    counts = len(scenario.spec.seeds), len(variants), _with_settings(compared), len(settings)
    runs = "seeds x variations x methods x settings"
    few = gathered.attempt("", demand_few, runs, *counts, most=MOST_RUNS)
    measure: Any = score or section.score
    if measure not in SCORES:
        gathered.problems.append(
            Problem("--score", f"should be one of {', '.join(SCORES)}, found '{measure}'")
        )
    labels = [method.label for method in compared]
    baseline = (
        gathered.attempt("baseline", baseline_of, labels, baseline or section.baseline)
        if labels
        else ""
    )
    cells = gathered.cells(compared, varied, tuned, variants, settings) if few else []
    places = gathered.places(compared, varied, tuned)
    if gathered.problems:
        cells = [_in_part_of_a_grid(cell) for cell in [*cells, *gathered.mended]]
        return Draft(None, gathered.problems, cells, places)
    cells = _under_one_split(scenario.document, cells)
    assert baseline
    complete = Compare(
        methods=[method.written for method in compared],
        vary={path: list(map(value_of, texts)) for path, texts in varied.items()},
        tune={path: list(map(value_of, texts)) for path, texts in tuned.items()},
        baseline=baseline,
        score=measure,
    )
    described = scenario._replace(spec=scenario.spec.model_copy(update={"compare": complete}))
    return Draft(Design(described, cells, baseline, measure), [], cells, places)


def _in_part_of_a_grid(cell: Cell) -> Cell:
    """A cell of a comparison that is refused: with what it would be compared is not known."""
    document = cell.scenario.document
    broken = document.broken | {("compare", "methods")}
    return cell._replace(scenario=cell.scenario._replace(document=document._replace(broken=broken)))


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
    rules = [
        keeps and _reader(cell.scenario.spec) for cell, keeps in zip(cells, keeping, strict=True)
    ]
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
    for grid, others, where in [
        (tuned, varied, "--tune"),
        *((m.grid, {**varied, **tuned}, m.label) for m in methods),
    ]:
        for path in sorted(grid.keys() & others.keys()):
            done = "varied" if path in varied else "tuned with all methods"
            raise ScenarioError(
                [Problem("", f"{path} is {done} already; take out one of them")], where
            )


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
    return [
        dict(zip(by_path, values, strict=True)) for values in itertools.product(*by_path.values())
    ]


def demand_few(where: str, *counts: int, most: int = MOST_CELLS) -> bool:
    """Refuse a product of so many values before it is expanded; True for any other.

    Raises:
      ScenarioError: with the count and the bound.
    """
    if (count := math.prod(counts)) > most:
        product = f"{' x '.join(map(str, counts))} = {count} combinations"
        problem = Problem(
            "", f"{product}, more than can be played; at most {most}, compare less at a time"
        )
        raise ScenarioError([problem], where)
    return True


class Gathered:
    """The problems of a comparison, collected while it is read: one wrong entry does not hide the next.

    Args:
      document: of the scenario.
      given: by key of `compare`, whether an option took its place.
    """

    def __init__(self, document: Document, **given: bool):
        self.document = document
        self.given = given
        self.problems: list[Problem] = []
        self.mended: list[Cell] = []  # what is left of refused cells

    def attempt(self, key: str, make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """`make(*arguments)`, or None where it is refused, which is kept at the place of a key of `compare`."""
        try:
            return make(*arguments, **options)
        except ScenarioError as error:
            for problem in error.problems:
                self.problems.append(self._placed(key, problem, error.file))
        return None

    def methods(self, written: str | Sequence[Any]) -> list[ComparedMethod]:
        """The methods whose entries have a form that they may have, each under a label of its own."""
        compared: list[ComparedMethod] = []
        for i, entry in enumerate(entries_of(written)):
            (method,) = self._entry(i, entry) or [None]
            if method is None:
                continue
            if any(method.label == other.label for other in compared):
                text = f"'{method.label}' is given twice; give one of them a label"
                self.problems.append(self._placed("methods", Problem("", text), "--methods"))
                continue
            compared.append(method)
        return compared

    def _entry(self, i: int, entry: Any) -> list[ComparedMethod] | None:
        try:
            methods = methods_of([entry])
            methods[0].grid  # noqa: B018 (its values are read)
            return methods
        except ScenarioError as error:
            place = ("compare", "methods", i)
            for problem in error.problems:
                at = self._placed("methods", problem, error.file)
                self.problems.append(
                    at if self.given["methods"] else problem_at(self.document, place, problem.what)
                )
        return None

    def cells(
        self,
        compared: Sequence[ComparedMethod],
        varied: dict[str, list[str]],
        tuned: dict[str, list[str]],
        variants: list[dict[str, str]],
        settings: list[dict[str, str]],
    ) -> list[Cell]:
        """Every method under every variation and every setting to tune, read and checked.

        Args:
          compared: the methods.
          varied: axes of the grid.
          tuned: axes of what every method is tried with.
          variants: combinations of what is varied.
          settings: combinations of what is tuned.
        """
        counts = len(variants), _with_settings(compared), len(settings)
        if math.prod(counts) > MOST_CELLS:
            self.attempt("", demand_few, "variations x methods x settings", *counts)
            return []
        cells, refused, everywhere = [], [], []
        for corner, edits in corners(compared, variants, settings):
            everywhere.append(corner)
            try:
                cells.append(corner.cell(read(self.document, edits, corner.written), edits))
            except ScenarioError as error:
                refused += [Refused(corner, bare(problem, edits)) for problem in error.problems]
                if error.mended is not None:
                    self.mended.append(corner.cell(error.mended, edits))
        self.problems += placed(refused, everywhere, self.places(compared, varied, tuned))
        return cells

    def places(
        self,
        compared: Sequence[ComparedMethod],
        varied: dict[str, list[str]],
        tuned: dict[str, list[str]],
    ) -> Places:
        """Where the parts of a cell's name stand."""
        return Places(
            self.document,
            {key: OPTIONS[key] for key, given in self.given.items() if given},
            [method.label for method in compared],
            {"vary": dict(varied), "tune": dict(tuned)},
        )

    def _placed(self, key: str, problem: Problem, where: str) -> Problem:
        """A problem at a key of `compare`, or at the option that took its place."""
        if where == self.document.file:
            return problem
        if not key or self.given.get(key):
            return problem._replace(where=problem.where or where)
        return problem_at(self.document, ("compare", key), problem.what)


def corners(
    compared: Sequence[ComparedMethod],
    variants: Sequence[dict[str, str]],
    settings: Sequence[dict[str, str]],
) -> Iterator[tuple[Corner, tuple[str, ...]]]:
    """Every cell's place in the grid, with what it changes in the base scenario."""
    several = [(method, *setting) for method in compared for setting in method.settings()]
    for varied, (method, written, tuned_alone), shared in itertools.product(
        variants, several, settings
    ):
        tuned = {**shared, **tuned_alone}
        changed = {**varied, **shared}, {path: tuned_alone[path] for path in method.tune}
        before, after = (
            [f"{path}={value}" for path, value in values.items()] for values in changed
        )
        yield Corner(method.label, written, varied, tuned), (*before, *method.edits, *after)
