"""The cells of a comparison, built without training: which are refused, and what others cost."""

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment, build
from fedsim.assemble.check import check_scenario
from fedsim.assemble.experiment import numerics
from fedsim.assemble.problems import UNKNOWN, Problems
from fedsim.errors import DataError, Problem, ScenarioError
from fedsim.runs.given import Given
from fedsim.runs.sweep import Partitioner
from fedsim.study.cells import Cell, RefusedCell, problem_lines, without_edits
from fedsim.study.grid import Draft
from fedsim.study.promotion import planned_rounds

MAX_SECONDS = 30.0  # of processor time in which cells are tried
SURVEYED = 10  # rounds whose work represents that of all


class Tried(NamedTuple):
    """The cells of a comparison after they were tried.

    Attributes:
      checked: of how many all parts were made and checked.
      built: how many were built; the other checked ones differ from one of them only in floats.
      runs: the runs of the checked cells.
      local_steps: the cost of these runs.
      bytes_up: likewise, at most.
      bytes_down: likewise, at most.
    """

    problems: list[Problem]
    cells: int
    checked: int
    built: int
    runs: int
    local_steps: float
    bytes_up: float
    bytes_down: float
    notes: Sequence[str] = ()

    def record(self) -> dict[str, Any]:
        """The counts, as `fedsim check --json` prints them."""
        texts = ("problems", "notes")
        return {name: value for name, value in self._asdict().items() if name not in texts}


def try_cells(
    draft: Draft,
    device: str | None,
    partition: Partitioner,
    given: Given,
    known: Sequence[Problem],
    known_lines: Sequence[str],
) -> Tried:
    """Make and check the parts of every cell, and build one of those that differ only in floats.

    Cells over the same samples share them. After `MAX_SECONDS` the remaining cells are left out,
    and counted.

    Args:
      partition: the `cached_partition` that the base scenario has used.
      known: problems of the base scenario.
      known_lines: problems of its data.
    """
    end = time.thread_time() + MAX_SECONDS
    # Local steps, bytes up and bytes down: of a round of one cell for all that differ from it only
    # in floats, and of all runs.
    round_costs: dict[str, np.ndarray] = {}
    costs = np.zeros(3, object)  # Python's numbers: steps mostly are integers
    refused: list[RefusedCell] = []
    tried = 0
    rounds = [cell.scenario.spec.rounds for cell in draft.cells]
    if draft.design is not None:
        rounds = planned_rounds(draft.cells, draft.design.scenario.spec.compare.search)
    for cell, rounds_of_run in zip(draft.cells, rounds, strict=True):
        if time.thread_time() > end:
            break
        tried += 1
        key = _without_floats(cell.scenario.spec)
        problems = Problems(cell.scenario)
        with numerics(cell.scenario, device=device) as devices:
            if key in round_costs or cell.scenario.document.broken:
                problems.attempt(check_scenario, cell.scenario, *given, partition)
            else:
                round_cost = problems.attempt(_round_cost, cell, devices, partition, given)
                if round_cost is not UNKNOWN:
                    round_costs[key] = round_cost

        for problem in _problems_of_cell(problems, known_lines):
            refused.append(RefusedCell(cell.position, without_edits(problem, cell.edits)))
        if key in round_costs and not problems.errors:
            seeds = cell.scenario.spec.seeds
            costs += len(seeds) * rounds_of_run * round_costs[key]

    positions = [cell.position for cell in draft.cells]
    local_steps, bytes_up, bytes_down = costs.tolist()
    return Tried(
        problems=problem_lines(refused, positions, draft.origins, known),
        cells=len(draft.cells),
        checked=tried,
        built=len(round_costs),
        runs=sum(len(cell.scenario.spec.seeds) for cell in draft.cells[:tried]),
        local_steps=local_steps,
        bytes_up=bytes_up,
        bytes_down=bytes_down,
    )


def _round_cost(cell: Cell, devices: list[Any], partition: Partitioner, given: Given) -> np.ndarray:
    """Build a cell -> local steps, and bytes up and down at most, of a round of it `[3]`."""
    inputs = given._asdict()
    experiment: Experiment = build(
        cell.scenario, devices=devices[:1], partition=partition, **inputs
    )
    plan = next(iter(experiment.plans.values()))
    rounds = list(itertools.islice(plan.survey.rounds(), SURVEYED))
    if not rounds:
        return np.zeros(3, object)
    senders = statistics.mean(len(work.senders) for work in rounds)
    receivers = statistics.mean(len(work.receivers) for work in rounds)
    steps = statistics.mean(int(work.steps.sum()) for work in rounds)
    up = float(np.mean(plan.cost.up))
    down = float(np.mean(plan.cost.down))
    return np.array([steps, senders * up, receivers * down], object)


def _problems_of_cell(problems: Problems, known_lines: Sequence[str]) -> Iterator[Problem]:
    """The problems of a cell, without those of samples that the base scenario has as well."""
    for error in problems.errors:
        if isinstance(error, ScenarioError):
            yield from error.problems
        elif isinstance(error, DataError):
            for line in error.lines:
                if line not in known_lines:
                    yield Problem("", line)


def _without_floats(spec: Any) -> str:
    """Equal for scenarios of the same size, which differ only in floats, names and comparison."""
    values = spec.model_dump(mode="json")
    for key in ("name", "compare", "method"):
        values.pop(key, None)
    return repr(_floats_as_none(values))


def _floats_as_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _floats_as_none(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_floats_as_none(entry) for entry in value]
    return None if isinstance(value, float) else value
