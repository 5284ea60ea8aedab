"""The design of a comparison: what its arguments say, and where they say nothing the scenario's `compare` section."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, ScenarioError
from fedsim.scenario import Scenario
from fedsim.scenario.sections import Compare
from fedsim.study.grid import MOST_RUNS, Cell, axes, demand_few, grid, variations
from fedsim.study.methods import baseline_of, methods_of, value_of
from fedsim.study.summary import SCORES

Axes = Sequence[str] | Mapping[str, Sequence[Any]] | None


class Design(NamedTuple):
    """A comparison as it was described.

    Attributes:
      scenario: without its grid, and with all that is compared in its `compare` section.
      cells: of the grid.
      baseline: label of the method that the others are compared with.
      score: what of a run is compared.
    """

    scenario: Scenario
    cells: list[Cell]
    baseline: str
    score: str


def design_of(
    scenario: Scenario,
    methods: str | Sequence[Any] | None = None,
    vary: Axes = None,
    tune: Axes = None,
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
    if tuned and not scenario.spec.data.validation:
        problem = "what is tuned is chosen on validation data; set data.validation=0.1"
        raise scenario.error(("data", "validation"), problem)
    twice = sorted(varied.keys() & tuned.keys())
    if twice:
        raise ScenarioError([Problem("", f"{twice[0]} is varied already; take out one of them")], "--tune")
    variants, settings = variations(varied, "compare.vary"), variations(tuned, "compare.tune")
    counts = map(len, (scenario.spec.seeds, variants, compared, settings))
    demand_few("seeds x variations x methods x settings", *counts, most=MOST_RUNS)
    cells = grid(scenario.document, compared, variants, settings)
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
