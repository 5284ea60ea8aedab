"""The executor of this process: it runs side by side the cells that train by one program.

A cell that fails has the failure as its outcome.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
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
from fedsim.runs.executor import RunKey, Runs, execute_all, keys_of
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.runs.given import NOTHING_GIVEN, Given
from fedsim.runs.record import record_of
from fedsim.scenario import Scenario
from fedsim.scenario.recorded_paths import roots_of, with_relative_paths
from fedsim.study.grid import Cell

FATAL = (Interrupted, LockedError, DirectoryError, CheckpointError)  # they end the comparison

Partitioner = Callable[[Scenario, Arrays | None, Any], dict[int, Federation]]
Built = tuple[Experiment, dict[str, Any]]  # an experiment, and its record


class Sweep:
    """Runs cells in this process; an `Executor`.

    Args:
      devices: the devices to compute on.
      numerics: scenario -> the context to compute in.
      run_files: the files of the run directory; None: nothing is written.
      listen: called with every run and every row.
      build: builds a cell on the devices.
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
        self.runs: Runs = []
        self.outcome_by_index: dict[int, Outcome] = {}  # by the position of the cell in `runs`

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes of the cells that were executed, in the order of their submission."""
        return [self.outcome_by_index[index] for index in sorted(self.outcome_by_index)]

    def slots(self) -> int:
        """It is one process."""
        return 1

    def submit(self, runs: Runs) -> None:
        """Take these runs."""
        self.runs = list(runs)

    def as_completed(self, ask: Callable[[], bool]) -> Iterator[list[RunKey]]:
        """Execute the runs, and yield those of a cell when it has its outcome; see `Executor`."""
        waiting: dict[int, PlannedExperiment] = {}
        for index, (cell, seeds) in enumerate(self.runs):
            try:
                planned = self._planned(cell, seeds)
            except FATAL:
                raise
            except Exception as error:
                self.outcome_by_index[index] = _failed(cell, error)
                yield keys_of([(cell, seeds)])
                continue

            # Cells over other samples wait until these are done: few samples are in memory then.
            first = next(iter(waiting.values()), planned)
            if len(waiting) >= MAX_RUNS or not _same_samples(planned, first):
                yield from self._execute_waiting(waiting, ask)
                waiting = {}
            waiting[index] = planned
        yield from self._execute_waiting(waiting, ask)

    def cancel(self) -> None:
        """Forget the runs: nothing is executed outside of `as_completed`."""
        self.runs = []

    def _planned(self, cell: Cell, seeds: Sequence[int]) -> PlannedExperiment:
        """Build a cell."""

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

    def _execute_waiting(
        self, waiting: dict[int, PlannedExperiment], ask: Callable[[], bool]
    ) -> Iterator[list[RunKey]]:
        """Execute cells over the same samples, those that train by one program together."""
        while waiting:
            first = next(iter(waiting.values()))
            group: dict[int, PlannedExperiment] = {}
            remaining: dict[int, PlannedExperiment] = {}
            for index, planned in waiting.items():
                chosen = group if _can_run_together(planned, first) else remaining
                chosen[index] = planned

            self.outcome_by_index |= self._execute_group(group, ask)
            yield keys_of([self.runs[index] for index in group])
            waiting = remaining

    def _execute_group(
        self, group: dict[int, PlannedExperiment], ask: Callable[[], bool]
    ) -> dict[int, Outcome]:
        """Execute cells together; when that fails, one by one, to know which of them fail."""
        planned_cells = list(group.values())
        try:
            with planned_cells[0].numerics():
                results = execute(planned_cells, self.run_files, None, self.listen, ask)
        except FATAL:
            raise
        except Exception as error:
            if len(group) == 1:
                (index,) = group
                cell, _ = self.runs[index]
                return {index: _failed(cell, error)}
            outcomes: dict[int, Outcome] = {}
            for index, planned in group.items():
                outcomes |= self._execute_group({index: planned}, ask)
            return outcomes

        cells = [self.runs[index][0] for index in group]
        return dict(zip(group, map(Outcome, cells, results), strict=True))


def run_sweep(
    runs: Runs,
    run_files: RunFiles,
    device: str | None,
    threads: int | None,
    ask: Callable[[], bool] = lambda: False,
    builds: "Builds | None" = None,
) -> dict[str, str]:
    """Execute runs into their journals: what a spawned process does.

    Args:
      runs: the runs.
      run_files: the files of the folder with their journals.
      device: as `devices_of` takes it.
      threads: the threads of XLA's pool.
      ask: whether to stop.
      builds: what this process has built for the comparison; left out: this is its only one.

    Returns:
      Why configurations cannot be run, by label.

    Raises:
      Interrupted: when `ask` said so.
    """

    def within(scenario: Scenario) -> AbstractContextManager[list]:
        return numerics(scenario, threads, device)

    builds = builds or _builds_of_process()
    builds.forget_all_but(runs)
    first, _ = runs[0]
    with within(first.scenario) as devices:
        sweep = Sweep(
            devices=devices,
            numerics=within,
            run_files=run_files,
            listen=None,
            build=builds.build,
        )
        execute_all(sweep, runs, ask)
    reasons = {}
    for outcome in sweep.outcomes:
        if outcome.result is None:
            reasons[label_of(outcome.cell.key_columns)] = outcome.reason
    return reasons


def build_cell(
    cell: Cell, devices: list, partition: Partitioner, given: Given = NOTHING_GIVEN
) -> Built:
    """Build a cell (call it inside `numerics`).

    Args:
      cell: the cell.
      devices: the devices to compute on.
      partition: a `cached_partition`.
      given: what a Python program passed.
    """
    inputs = given._asdict()
    experiment = build(cell.scenario, devices=devices, partition=partition, **inputs)
    record = {**record_of(experiment, devices, given.names), "method": cell.method}
    return experiment, record


class Builds:
    """The cells that a process has built for its latest task, as far as they have the same samples.

    The next task mostly has other seeds of the same cells, and a cell is built for all its seeds.

    Args:
      partition: a `cached_partition`.
    """

    def __init__(self, partition: Partitioner):
        self.partition = partition
        self.built: dict[str, Built] = {}  # by the cell's label
        self.data_key = ""

    def build(self, cell: Cell, devices: list) -> Built:
        """Build a cell, if it is not built yet."""
        key = data_key(cell.scenario)
        if key != self.data_key:  # few samples are to be in memory
            self.built.clear()
            self.data_key = key
        label = label_of(cell.key_columns)
        if label not in self.built:
            self.built[label] = build_cell(cell, devices, self.partition)
        return self.built[label]

    def forget_all_but(self, runs: Runs) -> None:
        """Forget all cells but those of some runs."""
        labels = {label_of(cell.key_columns) for cell, _ in runs}
        self.built = {label: built for label, built in self.built.items() if label in labels}


@cache
def _builds_of_process() -> Builds:
    """Those of a process that was started for one comparison."""
    return Builds(cached_partition())


def _same_samples(planned: PlannedExperiment, other: PlannedExperiment) -> bool:
    """Whether two cells hold the same samples."""
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


def _failed(cell: Cell, error: Exception) -> Outcome:
    """The outcome of a cell that cannot be run."""
    line = " ".join(str(error).split())
    reason = with_relative_paths(line, roots_of(cell.scenario.document)) or type(error).__name__
    out_of_memory = exit_code(error) == 8 or bool(exhausted(error))
    return Outcome(cell, None, reason, out_of_memory)


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
