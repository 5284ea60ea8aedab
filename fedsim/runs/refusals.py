"""Everything that is wrong with a scenario, at all stages, found before anything is trained."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fedsim.assemble.check import check_scenario
from fedsim.assemble.components import not_federated_of
from fedsim.assemble.experiment import numerics
from fedsim.assemble.problems import Problems
from fedsim.errors import DataError, Problem, ScenarioError
from fedsim.runs.cells import Tried, try_cells
from fedsim.runs.given import NOTHING_GIVEN, Given
from fedsim.runs.resolve import demand_own_samples, has_own_samples
from fedsim.runs.sweep import Partitioner, cached_partition
from fedsim.scenario import Scenario, read
from fedsim.study.grid import Axes, Design, draft_of
from fedsim.study.standings import few_seeds
from fedsim.types.client import ALONE

Refusal = ScenarioError | DataError

ONE_RUN = "each is a run for every client; write fedsim compare, or data.holdout=null"


class CompareOverrides(NamedTuple):
    """Arguments of `fedsim.compare` that replace keys of `compare:`; None: as in the scenario."""

    methods: str | Sequence[Any] | None = None
    vary: Axes | None = None
    tune: Axes | None = None
    baseline: str | None = None
    score: str | None = None
    baselines: bool = False


def read_checked(
    source: Any,
    edits: tuple[str, ...] = (),
    data_roots: Iterable[Any] = (),
    device: str | None = None,
    overrides: CompareOverrides | None = None,
    given: Given = NOTHING_GIVEN,
    method: Any = None,
) -> Scenario:
    """Read a scenario; one that is refused is refused with the problems of all later stages, too.

    Args:
      overrides: of its comparison, whose cells are tried as well; None: no cell is tried.
    """
    try:
        scenario = read(given.beside(source), edits, method, data_roots=data_roots)
    except ScenarioError as error:
        raise with_later_problems(error, device, overrides, given) from None
    if overrides is None and scenario.spec.data.holdout is not None:
        raise scenario.error(("data", "holdout"), ONE_RUN)
    return scenario


def with_later_problems(
    error: ScenarioError,
    device: str | None = None,
    overrides: CompareOverrides | None = None,
    given: Given = NOTHING_GIVEN,
) -> Refusal:
    """A refusal together with those of the later stages; for arguments see `read_checked`."""
    if error.mended is None:
        return error
    # Nobody promises that what is left of a refused scenario can be checked: if that fails, what is
    # known already is reported.
    with contextlib.suppress(Exception):
        try:
            refuse(error.mended, device, overrides, given, before=error)
        except (ScenarioError, DataError) as refusal:
            return refusal
    return error


def refuse(
    scenario: Scenario,
    device: str | None = None,
    overrides: CompareOverrides | None = None,
    given: Given = NOTHING_GIVEN,
    before: ScenarioError | None = None,
) -> Tried | None:
    """Refuse a scenario with everything that is wrong with it and with the cells of its comparison.

    Args:
      scenario: as read, or what is left of one that was refused.
      before: what was refused already.

    Returns:
      What was tried of the comparison, and what it would cost; None without one.

    Raises:
      ScenarioError: with a line for every problem.
      DataError: where only the data are wrong.
    """
    problems = Problems(scenario)
    if before is not None:
        problems.add(before)
    partition = cached_partition()
    with numerics(scenario, device=device):
        problems.attempt(check_scenario, scenario, *given, partition)

    tried = None
    if overrides is not None and (scenario.spec.compare.methods or any(overrides)):
        draft = draft_of(scenario, *overrides)
        if draft.problems:
            problems.add(ScenarioError(draft.problems, scenario.document.file))
        known: list[Problem] = []
        known_lines: list[str] = []
        for error in problems.errors:
            if isinstance(error, ScenarioError):
                known += error.problems
            else:
                known_lines += error.lines
        tried = try_cells(draft, device, partition, given, known, known_lines)
        if draft.design is not None and not tried.problems:
            problems.attempt(demand_own_samples, draft.design, partition, given.data)
            notes = _notes_on_seeds(draft.design, partition, given.data)
            tried = tried._replace(notes=notes)
        if tried.problems:
            problems.add(ScenarioError(tried.problems, scenario.document.file))
    problems.raise_all()
    return tried


def _notes_on_seeds(design: Design, partition: Partitioner, data: Any) -> list[str]:
    """Whether a comparison has too few seeds for any significant difference: a note, or none.

    Comparisons that turn out to have equal scores are one test, so there may be fewer of them.
    """
    tests = set()
    for cell in design.cells:
        is_alone = not_federated_of(cell.scenario.spec) == ALONE
        is_scored = not is_alone or has_own_samples(design, partition, data)
        if cell.method != design.baseline and is_scored:
            tests.add((cell.method, cell.variant))
    text = few_seeds(len(design.scenario.spec.seeds), len(tests))
    return [f"{text} for a significant difference"] if tests and text else []
