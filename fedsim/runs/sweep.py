"""All cells of a grid in this process, those that train by one program side by side.

A cell that fails has the failure as its outcome.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.federation import federations_of
from fedsim.data import Arrays, Federation
from fedsim.engine.loop import MOST, alike
from fedsim.errors import (
    CheckpointError,
    DirectoryError,
    Interrupted,
    LockedError,
    exhausted,
    exit_code,
)
from fedsim.runs.comparison import Outcome
from fedsim.runs.execute import Listener, Planned, execute
from fedsim.runs.executor import Part, Run, play, runs_in
from fedsim.runs.filenames import Layout, label_of
from fedsim.runs.record import record_of
from fedsim.scenario import Scenario
from fedsim.scenario.places import roots_of, scrubbed
from fedsim.study.grid import Cell

FATAL = (Interrupted, LockedError, DirectoryError, CheckpointError)

Partition = Callable[[Scenario, Arrays | None, Any], dict[int, Federation]]


class Sweep:
    """This process, which plays runs that train by one program side by side; an `Executor`.

    Args:
      devices: to compute on.
      numerics: scenario -> the context to compute in.
      layout: of the run directory; None: nothing is written.
      listen: called with every run and every row.
      partition: as of `cached_partition`.
    """

    def __init__(
        self,
        devices: list,
        numerics: Callable[[Scenario], AbstractContextManager[list]],
        layout: Layout | None,
        listen: Listener | None,
        partition: Partition,
    ):
        self.devices, self.numerics, self.partition = devices, numerics, partition
        self.layout, self.listen = layout, listen
        self.runs: Part = []
        self.found: dict[int, Outcome] = {}  # by the place of their cells

    @property
    def outcomes(self) -> list[Outcome]:
        """Those of the cells that were played, in the order in which they were submitted."""
        return [self.found[i] for i in sorted(self.found)]

    def slots(self) -> int:
        """It is one process."""
        return 1

    def submit(self, runs: Part) -> None:
        """Take these runs."""
        self.runs = list(runs)

    def as_ended(self, ask: Callable[[], bool]) -> Iterator[list[Run]]:
        """Play the runs, and tell of those of a cell when it has its outcome; see `Executor`."""
        waiting: dict[int, Planned] = {}
        for i, (cell, seeds) in enumerate(self.runs):
            try:
                planned = self._planned(cell, seeds)
            except FATAL:
                raise
            except Exception as error:
                self.found[i] = _failed(cell, error)
                yield runs_in([(cell, seeds)])
                continue
            first = next(iter(waiting.values()), planned)
            if len(waiting) >= MOST or not _same_samples(planned, first):
                yield from self._played(waiting, ask)
                waiting = {}
            waiting[i] = planned
        yield from self._played(waiting, ask)

    def cancel(self) -> None:
        """Nothing goes on outside of `as_ended`."""
        self.runs = []

    def _planned(self, cell: Cell, seeds: Sequence[int]) -> Planned:
        """A cell, built."""
        within = lambda: self.numerics(cell.scenario)
        with within():
            experiment = build(cell.scenario, devices=self.devices, partition=self.partition)
            record = {**record_of(experiment, self.devices, []), "method": cell.method}
        return Planned(
            experiment=experiment,
            record=record,
            who=cell.who,
            numerics=within,
            seeds=[seed for seed in experiment.plans if seed in seeds],
        )

    def _played(self, waiting: dict[int, Planned], ask: Callable[[], bool]) -> Iterator[list[Run]]:
        """Execute cells over the same samples, each together with all that train as it does."""
        rest = waiting
        while rest:
            first = next(iter(rest.values()))
            group = {i: planned for i, planned in rest.items() if _alike(planned, first)}
            self.found |= self._executed(group, ask)
            yield runs_in([self.runs[i] for i in group])
            rest = {i: planned for i, planned in rest.items() if i not in group}

    def _executed(self, group: dict[int, Planned], ask: Callable[[], bool]) -> dict[int, Outcome]:
        """Execute cells together; when that fails, each for itself, to know which of them fail."""
        cells = {i: self.runs[i][0] for i in group}
        try:
            with next(iter(group.values())).numerics():
                results = execute(list(group.values()), self.layout, None, self.listen, ask)
            return {i: Outcome(cells[i], result) for i, result in zip(group, results, strict=True)}
        except FATAL:
            raise
        except Exception as error:
            if len(group) == 1:
                return {i: _failed(cells[i], error) for i in group}
            alone = [self._executed({i: planned}, ask) for i, planned in group.items()]
            return {i: outcome for one in alone for i, outcome in one.items()}


def played(
    part: Part,
    layout: Layout,
    device: str | None,
    threads: int | None,
    ask: Callable[[], bool] = lambda: False,
    partition: Partition | None = None,
) -> dict[str, str]:
    """What a process does that was started to play runs: play them into their journals.

    Args:
      part: the runs.
      layout: of the folder with their journals.
      device: as `devices_of` takes it.
      threads: of XLA's pool.
      ask: whether to come to rest.
      partition: as of `cached_partition`; left out: that of this process.

    Returns:
      Why, by label, of configurations that cannot be run.

    Raises:
      Interrupted: when `ask` said so.
    """
    within = lambda scenario: numerics(scenario, threads, device)
    first, _ = part[0]
    with within(first.scenario) as devices:
        sweep = Sweep(devices, within, layout, None, partition or _partition_of_process())
        play(sweep, part, ask)
    failed = [outcome for outcome in sweep.outcomes if outcome.result is None]
    return {label_of(outcome.cell.who): outcome.reason for outcome in failed}


def _same_samples(planned: Planned, other: Planned) -> bool:
    """Whether two cells hold the same samples.

    Cells over others are built when these are done, so that few samples are in memory.
    """
    one, two = (next(iter(p.experiment.plans.values())).federation for p in (planned, other))
    return one.train.x is two.train.x


def _alike(planned: Planned, other: Planned) -> bool:
    """Whether two cells can be executed side by side; a seed may have samples of its own."""
    one, two = planned.experiment, other.experiment
    same = one.scenario.spec.numerics == two.scenario.spec.numerics
    pairs = zip(one.plans.values(), two.plans.values(), strict=True)
    return same and all(alike([one.program, two.program], pair) for pair in pairs)


def _failed(cell: Cell, error: Exception) -> Outcome:
    """The outcome of a cell that cannot be run."""
    line = " ".join(str(error).split())
    reason = scrubbed(line, roots_of(cell.scenario.document)) or type(error).__name__
    return Outcome(cell, None, reason, exit_code(error) == 8 or bool(exhausted(error)))


def data_key(scenario: Scenario) -> str:
    """What a data section says of how samples are dealt: its values, and which are written."""
    data = scenario.spec.data
    return f"{data.kind} {data.model_dump_json()} {sorted(data.model_fields_set)}"


def cached_partition() -> Partition:
    """Federations for scenarios one after another: of the same data there are the same arrays."""
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


@cache
def _partition_of_process() -> Partition:
    """One for all parts of a process: mostly they are over the same samples."""
    return cached_partition()
