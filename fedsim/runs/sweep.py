"""The runs that this process executes: side by side the cells that train by one program.

A cell that fails has the failure as its outcome.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

from fedsim.assemble import build
from fedsim.assemble.experiment import Experiment, numerics
from fedsim.assemble.federation import federations_of
from fedsim.assemble.fields import alterations
from fedsim.data import Arrays, Federation
from fedsim.engine.loop import MAX_RUNS, can_train_together
from fedsim.errors import (
    CheckpointError,
    DirectoryError,
    Interrupted,
    LockedError,
    exhausted,
    exit_code,
)
from fedsim.runs.comparison import Outcome
from fedsim.runs.execute import Listener, PlannedExperiment, execute
from fedsim.runs.executor import Runs
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.runs.given import NOTHING_GIVEN, Given
from fedsim.runs.record import record_of
from fedsim.scenario import Scenario
from fedsim.scenario.recorded_paths import roots_of, with_relative_paths
from fedsim.study.grid import Cell

FATAL = (Interrupted, LockedError, DirectoryError, CheckpointError)  # they end the comparison

Partitioner = Callable[[Scenario, Arrays | None, Any], dict[int, Federation]]
Built = tuple[Experiment, dict[str, Any]]  # an experiment, and its record
PlannedCell = tuple[Cell, PlannedExperiment]


class Sweep:
    """Runs cells in this process.

    Args:
      numerics: scenario -> the context to compute in.
      run_files: the files of the run directory; None: nothing is written.
    """

    def __init__(
        self,
        devices: list,
        numerics: Callable[[Scenario], AbstractContextManager[list]],
        run_files: RunFiles | None,
        listen: Listener | None,
        build: Callable[[Cell, list], Built],
    ):
        self.devices = devices
        self.numerics = numerics
        self.run_files = run_files
        self.listen = listen
        self.build = build
        self.outcome_by_label: dict[str, Outcome] = {}

    def execute(self, runs: Runs, ask: Callable[[], bool]) -> list[Outcome]:
        """Execute runs, and return the outcomes of their cells.

        Raises:
          Interrupted: when `ask` said so.
        """
        waiting: list[PlannedCell] = []
        for cell, seeds in runs:
            try:
                planned = self._planned(cell, seeds)
            except FATAL:
                raise
            except Exception as error:
                self._failed(cell, error)
                continue

            # Cells over other samples wait until these are done: few samples are in memory then.
            if waiting and (len(waiting) >= MAX_RUNS or not _same_samples(planned, waiting[0][1])):
                self._execute_waiting(waiting, ask)
                waiting = []
            waiting.append((cell, planned))
        self._execute_waiting(waiting, ask)
        return [self.outcome_by_label[label_of(cell.key_columns)] for cell, _ in runs]

    def _planned(self, cell: Cell, seeds: Sequence[int]) -> PlannedExperiment:
        def within() -> AbstractContextManager[list]:
            return self.numerics(cell.scenario)

        with within():
            experiment, record = self.build(cell, self.devices)
        return PlannedExperiment(
            experiment=experiment,
            record=record,
            who=cell.key_columns,
            numerics=within,
            seeds=[seed for seed in experiment.plans if seed in seeds],
        )

    def _execute_waiting(self, waiting: list[PlannedCell], ask: Callable[[], bool]) -> None:
        """Execute cells over the same samples, those that train by one program together."""
        while waiting:
            _, first = waiting[0]
            group = [entry for entry in waiting if _can_run_together(entry[1], first)]
            waiting = [entry for entry in waiting if not _can_run_together(entry[1], first)]
            self._execute_group(group, ask)

    def _execute_group(self, group: list[PlannedCell], ask: Callable[[], bool]) -> None:
        """Execute cells together; when that fails, one by one, to know which of them fail."""
        planned_cells = [planned for _, planned in group]
        try:
            with planned_cells[0].numerics():
                results = execute(planned_cells, self.run_files, None, self.listen, ask)
        except FATAL:
            raise
        except Exception as error:
            if len(group) == 1:
                self._failed(group[0][0], error)
                return
            for entry in group:
                self._execute_group([entry], ask)
            return
        for (cell, _), result in zip(group, results, strict=True):
            self.outcome_by_label[label_of(cell.key_columns)] = Outcome(cell, result)

    def _failed(self, cell: Cell, error: Exception) -> None:
        line = " ".join(str(error).split())
        reason = with_relative_paths(line, roots_of(cell.scenario.document))
        out_of_memory = exit_code(error) == 8 or bool(exhausted(error))
        outcome = Outcome(cell, None, reason or type(error).__name__, out_of_memory)
        self.outcome_by_label[label_of(cell.key_columns)] = outcome


def run_sweep(
    runs: Runs,
    run_files: RunFiles,
    device: str | None,
    threads: int | None,
    ask: Callable[[], bool] = lambda: False,
    partition: Partitioner | None = None,
) -> dict[str, str]:
    """Execute runs into their journals: what a spawned process does.

    Args:
      partition: a `cached_partition` for the comparison; left out: it is this process' only one.

    Returns:
      Why configurations cannot be run, by label.

    Raises:
      Interrupted: when `ask` said so.
    """

    def within(scenario: Scenario) -> AbstractContextManager[list]:
        return numerics(scenario, threads, device)

    first, _ = runs[0]
    with within(first.scenario) as devices:
        sweep = Sweep(
            devices=devices,
            numerics=within,
            run_files=run_files,
            listen=None,
            build=partial(build_cell, partition=partition or _partition_of_process()),
        )
        outcomes = sweep.execute(runs, ask)
    failed = [outcome for outcome in outcomes if outcome.result is None]
    return {label_of(outcome.cell.key_columns): outcome.reason for outcome in failed}


def build_cell(
    cell: Cell, devices: list, partition: Partitioner, given: Given = NOTHING_GIVEN
) -> Built:
    """Build a cell (call it inside `numerics`)."""
    inputs = given._asdict()
    experiment = build(cell.scenario, devices=devices, partition=partition, **inputs)
    record = {**record_of(experiment, devices, given.names), "method": cell.method}
    return experiment._replace(until=cell.until), record


@cache
def _partition_of_process() -> Partitioner:
    """That of a process that was started for one comparison: its tasks mostly have equal data."""
    return cached_partition()


def _same_samples(planned: PlannedExperiment, other: PlannedExperiment) -> bool:
    plan = next(iter(planned.experiment.plans.values()))
    other_plan = next(iter(other.experiment.plans.values()))
    return plan.federation.train.x is other_plan.federation.train.x


def _can_run_together(planned: PlannedExperiment, other: PlannedExperiment) -> bool:
    """Whether two cells can be executed side by side; samples may depend on the seed."""
    one = planned.experiment
    two = other.experiment
    if one.scenario.spec.numerics != two.scenario.spec.numerics:
        return False
    plans = zip(one.plans.values(), two.plans.values(), strict=True)
    return all(can_train_together([one.program, two.program], pair) for pair in plans)


def data_key(scenario: Scenario) -> str:
    """Equal for data sections that give the same federation."""
    data = scenario.spec.data
    return f"{data.kind} {data.model_dump_json()} {sorted(data.model_fields_set)}"


def cached_partition() -> Partitioner:
    """A function that partitions samples; successive scenarios with equal data share the arrays."""
    last: dict[str, dict[int, Federation]] = {}

    def partition(scenario: Scenario, data: Arrays | None, dtype: Any) -> dict[int, Federation]:
        spec = scenario.spec
        decides = [alteration.decides(spec) for alteration in alterations()]
        key = f"{data_key(scenario)} {spec.seeds} {dtype} {decides!r}"
        if key not in last:
            last.clear()
            last[key] = federations_of(scenario, data, dtype)
        return last[key]

    return partition
