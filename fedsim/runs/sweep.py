"""All cells of a grid, those that train by one program side by side; a cell that fails has the failure as its outcome."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from fedsim.assemble import build
from fedsim.assemble.federation import federations_of
from fedsim.data import Arrays, Federation
from fedsim.engine.loop import MOST, alike
from fedsim.errors import CheckpointError, DirectoryError, Interrupted, LockedError, exhausted, exit_code
from fedsim.runs.comparison import Outcome
from fedsim.runs.execute import Planned
from fedsim.runs.record import record_of
from fedsim.runs.result import Result
from fedsim.scenario import Scenario
from fedsim.scenario.places import roots_of, scrubbed
from fedsim.study.grid import Cell

FATAL = (Interrupted, LockedError, DirectoryError, CheckpointError)


Partition = Callable[[Scenario, Arrays | None, Any], dict[int, Federation]]
Execute = Callable[[list[Planned]], list[Result]]


def swept(
    cells: Sequence[Cell],
    devices: list,
    numerics: Callable[[Scenario], AbstractContextManager[list]],
    execute: Execute,
    partition: Partition | None = None,
) -> list[Outcome]:
    """Every cell under all of its seeds -> the outcome of each, in their order.

    Args:
      cells: of the grid.
      devices: to compute on.
      numerics: scenario -> the context to compute in.
      execute: experiments that train by one program -> their results.
      partition: as of `cached_partition`; left out: a new one.
    """
    outcomes: dict[int, Outcome] = {}
    waiting: dict[int, Planned] = {}
    partition = partition or cached_partition()
    for i, cell in enumerate(cells):
        try:
            planned = _planned(cell, devices, numerics, partition)
        except FATAL:
            raise
        except Exception as error:
            outcomes[i] = _failed(cell, error)
            continue
        if waiting and (len(waiting) >= MOST or not _same_samples(planned, next(iter(waiting.values())))):
            outcomes |= _outcomes(waiting, cells, execute)
            waiting = {}
        waiting[i] = planned
    outcomes |= _outcomes(waiting, cells, execute)
    return [outcomes[i] for i in range(len(cells))]


def _planned(cell: Cell, devices: list, numerics: Callable[[Scenario], Any], partition: Partition) -> Planned:
    """A cell, built."""
    within = lambda: numerics(cell.scenario)
    with within():
        experiment = build(cell.scenario, devices=devices, partition=partition)
        record = {**record_of(experiment, devices, []), "method": cell.method}
    return Planned(experiment=experiment, record=record, who=cell.who, numerics=within, seeds=list(experiment.plans))


def _outcomes(waiting: dict[int, Planned], cells: Sequence[Cell], execute: Execute) -> dict[int, Outcome]:
    """Execute cells over the same samples, each together with all that train as it does."""
    outcomes: dict[int, Outcome] = {}
    while rest := {i: planned for i, planned in waiting.items() if i not in outcomes}:
        first = next(iter(rest.values()))
        group = {i: planned for i, planned in rest.items() if _alike(planned, first)}
        outcomes |= _executed(group, cells, execute)
    return outcomes


def _executed(group: dict[int, Planned], cells: Sequence[Cell], execute: Execute) -> dict[int, Outcome]:
    """Execute cells together; when that fails, each for itself, so that it is known which of them failed."""
    try:
        with next(iter(group.values())).numerics():
            results = execute(list(group.values()))
        return {i: Outcome(cells[i], result) for i, result in zip(group, results, strict=True)}
    except FATAL:
        raise
    except Exception as error:
        if len(group) == 1:
            return {i: _failed(cells[i], error) for i in group}
        alone = [_executed({i: planned}, cells, execute) for i, planned in group.items()]
        return {i: outcome for one in alone for i, outcome in one.items()}


def _same_samples(planned: Planned, other: Planned) -> bool:
    """Whether two cells hold the same samples: others are built when these are done, so that few are in memory."""
    one, two = (next(iter(p.experiment.plans.values())).federation for p in (planned, other))
    return one.train.x is two.train.x


def _alike(planned: Planned, other: Planned) -> bool:
    """Whether two cells can be executed side by side; the seeds of one may have samples of their own."""
    one, two = planned.experiment, other.experiment
    same = one.scenario.spec.numerics == two.scenario.spec.numerics
    pairs = zip(one.plans.values(), two.plans.values(), strict=True)
    return same and all(alike([one.program, two.program], pair) for pair in pairs)


def _failed(cell: Cell, error: Exception) -> Outcome:
    """The outcome of a cell that cannot be run."""
    reason = scrubbed(" ".join(str(error).split()), roots_of(cell.scenario.document)) or type(error).__name__
    return Outcome(cell, None, reason, exit_code(error) == 8 or bool(exhausted(error)))


def data_key(scenario: Scenario) -> str:
    """What a data section says of how samples are dealt: its values, and which of them are written."""
    data = scenario.spec.data
    return f"{data.kind} {data.model_dump_json()} {sorted(data.model_fields_set)}"


def cached_partition() -> Partition:
    """Federations for scenarios one after another: where the next one's data are the same, so are the arrays."""
    last: dict[str, dict[int, Federation]] = {}

    def partition(scenario: Scenario, data: Arrays | None, dtype: Any) -> dict[int, Federation]:
        spec = scenario.spec
        poisoned = spec.fleet.malicious if spec.data.attack else ""
        key = f"{data_key(scenario)} {spec.seeds} {dtype} {poisoned!r}"
        if key not in last:
            last.clear()
            last[key] = federations_of(scenario, data, dtype)
        return last[key]

    return partition
