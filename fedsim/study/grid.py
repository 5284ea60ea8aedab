"""The design of a comparison: a grid of methods × variations, whose cells share their seeds."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError
from fedsim.installed import modules_with
from fedsim.scenario import Scenario, read
from fedsim.scenario.diagnostics import in_order, problem_at
from fedsim.scenario.reader import Document
from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.cells import (
    OPTIONS,
    Axes,
    Cell,
    Origins,
    Position,
    RefusedCell,
    problem_lines,
    without_edits,
)
from fedsim.study.halving import brackets_of
from fedsim.study.method_ranges import with_ranges
from fedsim.study.methods import (
    ComparedMethod,
    baseline_of,
    entries_of,
    methods_of,
    problems_of_ranges,
    refuse,
    score_against,
    text_of,
    texts_of_axis,
    values_of_axis,
    with_baselines,
    with_setting,
)
from fedsim.study.search import demand_budget, demand_ranges, settings_of
from fedsim.study.summary import SCORES, of_clients

MAX_CELLS = 10_000  # of a comparison; each of them holds a scenario
MAX_RUNS = 100_000  # of a comparison, under all seeds

Values = dict[str, str]
"""path -> value as text for `--set`"""

NO_METHODS = (
    "no methods to compare; name them: --methods fedavg,fedadam (fedsim list methods), "
    "or compare.methods"
)
NO_SEARCH = "nothing is tuned, so there is nothing to search; set compare.tune, or remove it"
NO_VALIDATION = "settings are chosen on validation data; set data.validation=0.1"
NO_ATTACK_ON_VALIDATION = (
    "settings are chosen on validation data, where no attack is tried; write test_accuracy"
)


class Design(NamedTuple):
    """A comparison that can be run.

    Attributes:
      scenario: the base scenario, with all that is compared in its section `compare`.
      score: what of a run is compared, one of `SCORES`.
    """

    scenario: Scenario
    cells: list[Cell]
    baseline: str
    score: str


class Draft(NamedTuple):
    """A comparison as far as it can be read.

    Attributes:
      design: the comparison; None if anything is wrong with it.
      cells: the cells that can be checked further; of a refused one, what is left of it.
    """

    design: Design | None
    problems: list[Problem]
    cells: list[Cell]
    origins: Origins


class Grid(NamedTuple):
    """The methods of a comparison, and the values that vary or are tuned.

    Attributes:
      tuned: path -> values as text, or a range, of what is tuned with every method.
      budget: how many settings are drawn for every method; None: all combinations are tried.
    """

    methods: list[ComparedMethod]
    varied: dict[str, list[str]]
    tuned: dict[str, list[str]]
    budget: int | None
    variations: list[Values]

    @property
    def labels(self) -> list[str]:
        """Labels of the methods."""
        return [method.label for method in self.methods]

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned."""
        return bool(self.tuned) or any(method.grid for method in self.methods)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many variations, methods and settings there are; the product is that of the cells.

        A method counts as often as it has settings that are tried with it alone. Of drawn settings
        there are at most so many.
        """
        if self.budget is not None:
            return len(self.variations), len(self.methods), self.budget
        methods = sum(math.prod(map(len, method.grid.values())) for method in self.methods)
        return len(self.variations), methods, math.prod(map(len, self.tuned.values()))

    def settings(self, method: ComparedMethod) -> list[Values]:
        """Return what is tried of a method: path -> value as text, its own paths last."""
        order = [*self.tuned, *method.grid]
        settings = settings_of({**method.grid, **self.tuned}, self.budget)
        return [{path: setting[path] for path in order} for setting in settings]


def design_of(scenario: Scenario, *given: Any, **options: Any) -> Design:
    """Return a comparison, read and checked; arguments as of `draft_of`.

    Raises:
      ScenarioError: for a method, axis, baseline or score that is not possible.
    """
    draft = draft_of(scenario, *given, **options)
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
    baselines: bool = False,
) -> Draft:
    """Return a comparison as far as it can be read, with everything that is wrong with it.

    Arguments are those of `fedsim.compare`; None stands for what the section `compare` says.
    """
    # Read all of the comparison, and collect what is wrong with them.
    section = scenario.spec.compare
    reader = GridReader(
        scenario.document,
        methods=methods is not None,
        vary=bool(vary),
        tune=bool(tune),
    )
    given_methods = section.methods if methods is None else methods
    grid = reader.grid(
        methods=given_methods,
        vary=vary or section.vary,
        tune=tune or section.tune,
        scenario=scenario,
        baselines=baselines,
    )
    if not vary:
        reader.attempt("question", _demand_varied, section.question, grid.varied)
    few_runs = reader.attempt(
        "",
        demand_at_most,
        "seeds x conditions x methods x settings",
        len(scenario.spec.seeds),
        *grid.counts,
        limit=MAX_RUNS,
    )
    compared_score: Any = score or section.score
    if compared_score not in SCORES:
        problem = f"should be one of {', '.join(SCORES)}, found '{compared_score}'"
        reader.problems.append(Problem("--score", problem))
    if grid.methods:
        wanted = baseline or section.baseline
        baseline = reader.attempt("baseline", baseline_of, grid.methods, wanted)
    if baseline and not reader.problems:
        method = grid.methods[grid.labels.index(baseline)]
        metric = scenario.spec.evaluate.metric
        compared_score = reader.attempt("score", score_against, method, metric, compared_score)
    cells = reader.cells(grid) if few_runs else []
    reader.attempt("", _demand_one_pool, cells)
    if not reader.problems:
        reader.attempt("search", brackets_of, cells, section.search)

    # Of a comparison with problems, the cells that are left are checked further.
    origins = reader.origins(grid)
    if reader.problems:
        cells = [_of_refused_grid(cell) for cell in [*cells, *reader.mended]]
        return Draft(None, reader.problems, cells, origins)

    assert baseline
    for module in modules_with("GRID"):
        cells = module.as_read(scenario.document, cells)
    described = _with_comparison(scenario, grid, baseline, compared_score)
    return Draft(Design(described, cells, baseline, compared_score), [], cells, origins)


def _with_comparison(scenario: Scenario, grid: Grid, baseline: str, score: Any) -> Scenario:
    """The base scenario, with all that is compared in its section `compare`."""
    resolved = {
        "methods": [method.entry for method in grid.methods],
        "vary": _as_values(grid.varied),
        "tune": _as_values(grid.tuned),
        "ranges": False,  # the methods hold those of their files by now
        "baseline": baseline,
        "score": score,
    }
    compare = scenario.spec.compare.model_copy(update=resolved)
    return scenario._replace(spec=scenario.spec.model_copy(update={"compare": compare}))


def _as_values(axes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {path: values_of_axis(texts) for path, texts in axes.items()}


def _of_refused_grid(cell: Cell) -> Cell:
    """A cell of a comparison that is refused, so that nothing is known of the other methods.

    Its document has `compare.methods` marked as broken, and what depends on that is not checked.
    """
    document = cell.scenario.document
    broken = document.broken | {("compare", "methods")}
    return cell._replace(scenario=cell.scenario._replace(document=document._replace(broken=broken)))


def _demand_validation(scenario: Scenario) -> None:
    """Refuse a scenario without the validation data that settings are chosen on."""
    if of_clients(scenario.spec.evaluate.metric):
        return  # clients keep samples for it
    if not scenario.spec.data.validation:
        raise scenario.error(("data", "validation"), NO_VALIDATION)
    if scenario.spec.evaluate.metric == "attack_success":
        raise scenario.error(("evaluate", "metric"), NO_ATTACK_ON_VALIDATION)


def _demand_distinct(
    varied: Collection[str], tuned: Collection[str], methods: Sequence[ComparedMethod]
) -> None:
    """Refuse a path that is varied and tuned, or tuned with all methods and with one of them."""
    taken = dict.fromkeys(varied, "varied")
    own = {"--tune": tuned, **{method.label: method.grid for method in methods}}
    for where, paths in own.items():
        twice = [path for path in sorted(paths) if path in taken]
        texts = [f"{path} is {taken[path]} already; remove one of them" for path in twice]
        refuse(texts[:1], where)
        if where == "--tune":
            taken |= dict.fromkeys(tuned, "tuned with all methods")


def _demand_varied(question: Mapping[str, Any], varied: Mapping[str, Sequence[str]]) -> None:
    """Refuse a question about a value that is none of the grid's."""
    problems = []
    for path, value in question.items():
        values = varied.get(path, ())
        if text_of(value) not in values:
            found = ", ".join(values) or "nothing"
            problems.append(f"{path}={text_of(value)} does not vary; {path} has {found}")
    refuse(problems, "compare.question")


def _demand_one_pool(cells: Sequence[Cell]) -> None:
    """Refuse cells with pools of different sizes: one process has one pool, for all its cells."""
    sizes = sorted({str(cell.scenario.spec.numerics.threads) for cell in cells})
    if len(sizes) > 1:
        reason = "a process has one pool of threads, whose size can change bits"
        text = f"{reason}; found {' and '.join(sizes)}: write one number, or compare each by itself"
        refuse([text], "numerics.threads")


def axes_of(vary: Axes, option: str = "--vary") -> dict[str, list[str]]:
    """Return axes as path -> values as text for `--set`.

    Raises:
      ScenarioError: for a text of another form, a range that cannot be read, and the path `method`.
    """
    if isinstance(vary, Mapping):
        by_path = {path: texts_of_axis(values) for path, values in vary.items()}
    else:
        by_path = {}
        for text in vary:
            path, _, values = text.partition("=")
            by_path[path.strip()] = split_at_commas(values)
            if not by_path[path.strip()]:
                problem = "write PATH=V1,V2,..., such as client.lr=0.01,0.1"
                refuse([problem], f"{option} {text}")
    if "method" in by_path:
        refuse(["to compare methods, write --methods"], f"{option} method")
    refuse(problems_of_ranges(by_path), option)
    return by_path


def combinations_of(vary: Axes, option: str = "--vary") -> list[Values]:
    """Return every combination of the values of axes."""
    by_path = axes_of(vary, option)
    demand_at_most(option, *map(len, by_path.values()))
    combinations = itertools.product(*by_path.values())
    return [dict(zip(by_path, values, strict=True)) for values in combinations]


def demand_at_most(where: str, *counts: int, limit: int = MAX_CELLS) -> bool:
    """Refuse a product of too many values before it is expanded; return True for any other."""
    product = math.prod(counts)
    if product > limit:
        factors = " x ".join(map(str, counts))
        problem = (
            f"{factors} = {product} combinations, more than can be run; "
            f"at most {limit}: compare less at a time"
        )
        refuse([problem], where)
    return True


class GridReader:
    """Reads a comparison and collects its problems, so that one does not hide the next.

    Attributes:
      given: by key of `compare`, whether an option replaced it.
      mended: what is left of refused cells.
    """

    def __init__(self, document: Document, **given: bool):
        self.document = document
        self.given = given
        self.problems: list[Problem] = []
        self.mended: list[Cell] = []

    def attempt(
        self,
        key: str | tuple[str, int],
        make: Callable[..., Any],
        *arguments: Any,
        **options: Any,
    ) -> Any:
        """Return `make(*arguments, **options)`, or None if that is refused.

        Args:
          key: the key of `compare` at which a refusal is reported, and the index of an entry of its
            list; empty for none.
        """
        try:
            return make(*arguments, **options)
        except ScenarioError as error:
            for problem in error.problems:
                self.problems.append(self._located(key, problem, error.file))
        return None

    def grid(
        self,
        methods: str | Sequence[Any],
        vary: Axes,
        tune: Axes,
        scenario: Scenario,
        baselines: bool,
    ) -> Grid:
        """Return what is compared, as far as it can be read."""
        compared = self._methods(methods)
        if baselines and compared:
            compared = with_baselines(compared)
        if not compared and not self.problems:
            self.problems.append(Problem("compare.methods", NO_METHODS))
        varied = self.attempt("vary", axes_of, vary) or {}
        tuned = self.attempt("tune", axes_of, tune, "--tune") or {}
        if scenario.spec.compare.ranges:
            client = scenario.spec.client.kind
            taken = {*varied, *tuned}
            given = self.attempt("methods", with_ranges, compared, client, taken, bool(tuned))
            compared = given or compared
        grid = Grid(compared, varied, tuned, scenario.spec.compare.budget, variations=[])

        if grid.tunes:
            self.attempt("", _demand_validation, scenario)
        elif not self.problems and scenario.spec.compare.search.kind != "random":
            self.attempt("search", refuse, [NO_SEARCH], "compare.search")
        self.attempt("", _demand_distinct, varied, tuned, compared)
        self._demand_matching_budget(grid)
        return grid._replace(
            variations=self.attempt("vary", combinations_of, varied, "compare.vary") or []
        )

    def _demand_matching_budget(self, grid: Grid) -> None:
        """Refuse ranges without a budget, a budget without ranges, and lists that are too long."""
        own_axes = [method.grid for method in grid.methods]
        self.attempt("tune", demand_budget, grid.tuned, grid.budget)
        for axes in own_axes:
            self.attempt("methods", demand_budget, axes, grid.budget)
        if not self.problems:  # a range that is refused is one as well
            self.attempt("budget", demand_ranges, [grid.tuned, *own_axes], grid.budget)
        if grid.budget is None:
            self.attempt("tune", demand_at_most, "compare.tune", *map(len, grid.tuned.values()))

    def _methods(self, given: str | Sequence[Any]) -> list[ComparedMethod]:
        """The methods whose entries have a valid form, each under a different label."""
        methods: dict[str, ComparedMethod] = {}
        for index, entry in enumerate(entries_of(given)):
            method = self.attempt(("methods", index), _method_of, entry)
            if method is not None and method.label in methods:
                text = f"'{method.label}' is given twice; give one of them a label"
                self.attempt("methods", refuse, [text], "--methods")
            elif method is not None:
                methods[method.label] = method
        return list(methods.values())

    def cells(self, grid: Grid) -> list[Cell]:
        """Return every method under every variation with every setting, read and checked."""
        if math.prod(grid.counts) > MAX_CELLS:
            self.attempt("", demand_at_most, "conditions x methods x settings", *grid.counts)
            return []
        cells = []
        refused = []
        all_positions = []
        for position, edits in positions(grid):
            all_positions.append(position)
            try:
                cells.append(position.cell(read(self.document, edits, position.definition), edits))
            except ScenarioError as error:
                for problem in error.problems:
                    refused.append(RefusedCell(position, without_edits(problem, edits)))
                if error.mended is not None:
                    self.mended.append(position.cell(error.mended, edits))
        self.problems += problem_lines(refused, all_positions, self.origins(grid))
        return cells

    def origins(self, grid: Grid) -> Origins:
        """Return where the coordinates of cells are given."""
        replaced = [key for key, given in self.given.items() if given]
        return Origins(
            document=self.document,
            options={key: OPTIONS[key] for key in replaced},
            labels=grid.labels,
            axes={"vary": dict(grid.varied), "tune": dict(grid.tuned)},
        )

    def _located(self, key: str | tuple[str, int], problem: Problem, where: str) -> Problem:
        """A problem at a key of `compare`, or at the option that replaced it."""
        path = (key,) if isinstance(key, str) else key
        if where == self.document.file:
            return problem
        if not key or self.given.get(path[0]):
            return problem._replace(where=problem.where or where)
        return problem_at(self.document, ("compare", *path), problem.what)


def _method_of(entry: Any) -> ComparedMethod:
    """The method of an entry of `compare.methods`, whose values can be read."""
    (method,) = methods_of([entry])
    method.grid  # noqa: B018 (reads its values, and refuses empty ones)
    return method


def positions(grid: Grid) -> Iterator[tuple[Position, tuple[str, ...]]]:
    """Yield the position of every cell in the grid, with what it changes in the base scenario."""
    tried = [(method, setting) for method in grid.methods for setting in grid.settings(method)]
    for variation, (method, setting) in itertools.product(grid.variations, tried):
        # Hyper-parameters, `method.NAME`, are part of the definition, not edits.
        shared_paths = {path: setting[path] for path in grid.tuned}
        own_paths = {path: setting[path] for path in method.tune}
        edits = (
            *_as_edits({**variation, **shared_paths}),
            *method.edits,
            *_as_edits(own_paths),
        )
        definition = with_setting(method.method, setting)
        yield Position(method.label, definition, variation, setting), edits


def _as_edits(values: Mapping[str, str]) -> list[str]:
    return [f"{path}={value}" for path, value in values.items()]
