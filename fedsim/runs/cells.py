"""The cells of a comparison, built one after another without training: which are refused, and what the others would cost."""

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment, build
from fedsim.assemble.checked import checked
from fedsim.assemble.experiment import numerics
from fedsim.assemble.problems import Problems
from fedsim.errors import DataError, Problem, ScenarioError
from fedsim.runs.sweep import Partition
from fedsim.study.cells import Cell, Refused, bare, placed
from fedsim.study.grid import Draft

MOST_SECONDS = 30.0  # of processor time that cells are tried for
SURVEYED = 10  # rounds whose work stands for that of all


class Cost(NamedTuple):
    """What a round of a cell costs."""

    local_steps: float
    bytes_up: float  # at most
    bytes_down: float  # at most


class Tried(NamedTuple):
    """What came of the cells of a comparison."""

    problems: list[Problem]
    cells: int
    checked: int  # whose parts were all made and checked
    built: int  # as a whole; the others of these differ from one of them in floats alone
    runs: int  # of the cells that were checked
    local_steps: float  # of these runs
    bytes_up: float  # likewise, at most
    bytes_down: float

    def record(self) -> dict[str, Any]:
        """As `fedsim check --json` prints it."""
        return {name: value for name, value in self._asdict().items() if name != "problems"}


def try_cells(
    draft: Draft,
    device: str | None,
    partition: Partition,
    known: Sequence[Problem],
    data: Sequence[str],
) -> Tried:
    """Make and check the parts of every cell, and build one of those that differ in floats alone.

    Cells over the same samples share them. After `MOST_SECONDS` the others are left out, and counted.

    Args:
      draft: the comparison, as far as it could be read.
      device: to compute on.
      partition: as of `cached_partition`, which the base scenario has used.
      known: problems of the base scenario.
      data: lines that its samples have.
    """
    corners = [cell.corner for cell in draft.cells]
    end = time.thread_time() + MOST_SECONDS
    costs: dict[str, Cost] = {}
    refused: list[Refused] = []
    tried: list[Cost] = []
    cells = 0
    for cell in draft.cells:
        if time.thread_time() > end:
            break
        cells += 1
        key = _without_floats(cell.scenario.spec)
        problems = Problems(cell.scenario)
        with numerics(cell.scenario, device=device) as devices:
            if key in costs or cell.scenario.document.broken:
                problems.attempt(checked, cell.scenario, None, None, None, None, partition)
            else:
                cost = problems.attempt(_cost, cell, devices, partition)
                costs |= {key: cost} if cost else {}
        refused += [
            Refused(cell.corner, bare(problem, cell.edits))
            for problem in _lines(problems, cell, data)
        ]
        if key in costs and not problems.errors:
            spec = cell.scenario.spec
            tried.append(Cost(*(len(spec.seeds) * spec.rounds * value for value in costs[key])))
    return Tried(
        problems=placed(refused, corners, draft.places, known),
        cells=len(draft.cells),
        checked=cells,
        built=len(costs),
        runs=sum(len(cell.scenario.spec.seeds) for cell in draft.cells[:cells]),
        local_steps=sum(cost.local_steps for cost in tried),
        bytes_up=sum(cost.bytes_up for cost in tried),
        bytes_down=sum(cost.bytes_down for cost in tried),
    )


def _cost(cell: Cell, devices: list[Any], partition: Partition) -> Cost:
    """Build a cell -> what a round of it costs."""
    experiment: Experiment = build(cell.scenario, devices=devices[:1], partition=partition)
    plan = next(iter(experiment.plans.values()))
    rounds = list(itertools.islice(plan.survey(), SURVEYED))
    if not rounds:
        return Cost(0.0, 0.0, 0.0)
    clients = statistics.mean(len(work.ids) for work in rounds)
    steps = statistics.mean(int(work.steps.sum()) for work in rounds)
    up, down = float(np.mean(plan.cost.up)), float(np.mean(plan.cost.down))
    return Cost(steps, clients * up, clients * down)


def _lines(problems: Problems, cell: Cell, data: Sequence[str]) -> Iterator[Problem]:
    """What is said against a cell; samples that the base scenario has as well have their lines there."""
    for error in problems.errors:
        if isinstance(error, ScenarioError):
            yield from error.problems
        elif isinstance(error, DataError):
            yield from (Problem("", line) for line in error.lines if line not in data)


def _without_floats(spec: Any) -> str:
    """A scenario's values but for floats, its name, and what it is compared with: equal ones are alike in size."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [kept(inner) for inner in value]
        return None if isinstance(value, float) else value

    plain = spec.model_dump(mode="json")
    return repr(
        {
            key: kept(value)
            for key, value in plain.items()
            if key not in ("name", "compare", "method")
        }
    )
