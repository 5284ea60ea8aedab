"""Everything that is wrong with a scenario, of all stages at once, before anything is trained."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.assemble.checked import checked
from fedsim.assemble.experiment import numerics
from fedsim.assemble.problems import Problems
from fedsim.errors import DataError, ScenarioError
from fedsim.runs.cells import Tried, try_cells
from fedsim.runs.sweep import cached_partition
from fedsim.scenario import Scenario, read
from fedsim.study.grid import Axes, draft_of

Refusal = ScenarioError | DataError


class Compared(NamedTuple):
    """What is to be compared, as `fedsim.compare` takes it; None: what the scenario says."""

    methods: str | Sequence[Any] | None = None
    vary: Axes | None = None
    tune: Axes | None = None
    baseline: str | None = None
    score: str | None = None


def read_whole(
    source: Any,
    edits: tuple[str, ...] = (),
    data_roots: Iterable[Any] = (),
    device: str | None = None,
    compared: Compared | None = None,
    given: Mapping[str, Any] | None = None,
) -> Scenario:
    """A scenario as `read` makes it; what is wrong is said of all stages, not of reading alone.

    Args:
      source: path, mapping or `Scenario`.
      edits: `PATH=VALUE` as of `--set`.
      data_roots: as of `read`.
      device: to compute on.
      compared: what is to be compared, where the cells are to be tried as well.
      given: `data`, `model`, `params` and `loss` of a Python program.

    Raises:
      ScenarioError: with every problem.
    """
    try:
        return read(source, edits, data_roots=data_roots)
    except ScenarioError as error:
        raise completed(error, device, compared, given) from None


def completed(
    error: ScenarioError,
    device: str | None = None,
    compared: Compared | None = None,
    given: Mapping[str, Any] | None = None,
) -> Refusal:
    """A refusal together with what the stages behind it refuse; arguments as of `read_whole`."""
    if error.mended is None:
        return error
    # what is left of a refused scenario is nobody's: should looking at it fail, what is known already is said
    with contextlib.suppress(Exception):
        try:
            refuse(error.mended, device, compared, given, before=error)
        except (ScenarioError, DataError) as whole:
            return whole
    return error


def refuse(
    scenario: Scenario,
    device: str | None = None,
    compared: Compared | None = None,
    given: Mapping[str, Any] | None = None,
    before: ScenarioError | None = None,
) -> Tried | None:
    """Refuse a scenario with all that is wrong with it and with the cells of its comparison.

    Args:
      scenario: as read, or what is left of one that was refused.
      device: as of `read_whole`.
      compared: likewise.
      given: likewise.
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
    inputs = {"data": None, "model": None, "params": None, "loss": None, **(given or {})}
    partition = cached_partition()
    with numerics(scenario, device=device):
        problems.attempt(checked, scenario, *inputs.values(), partition)
    tried = None
    if compared is not None and (scenario.spec.compare.methods or any(compared)):
        draft = draft_of(scenario, *compared)
        if draft.problems:
            problems.add(ScenarioError(draft.problems, scenario.document.file))
        known = [
            problem
            for error in problems.errors
            if isinstance(error, ScenarioError)
            for problem in error.problems
        ]
        data = [
            line
            for error in problems.errors
            if isinstance(error, DataError)
            for line in error.lines
        ]
        tried = try_cells(draft, device, partition, known, data)
        if tried.problems:
            problems.add(ScenarioError(tried.problems, scenario.document.file))
    problems.raise_all()
    return tried
