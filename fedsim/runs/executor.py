"""Executors of a comparison: what runs its configurations.

This process, several processes of this machine, and the workers of a cluster have one interface.
Every run is written into its journal, and read from there afterwards, whoever has executed it.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from fedsim.errors import CheckpointError
from fedsim.runs.commits import committed
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.scenario import read
from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

RunKey = tuple[str, int]  # the label of a configuration, and a seed
Runs = list[tuple[Cell, tuple[int, ...]]]  # configurations, and the seeds of each


class Executor(Protocol):
    """What executes runs; every method is called once, in this order."""

    def slots(self) -> int:
        """About how many runs it executes side by side."""
        ...

    def submit(self, runs: Runs) -> None:
        """Take these runs, to execute them in groups of its own choice."""
        ...

    def as_completed(self, ask: Callable[[], bool]) -> Iterator[list[RunKey]]:
        """Yield runs as they end; a run that fails has ended, too.

        Args:
          ask: whether to stop.

        Raises:
          Interrupted: when `ask` said so.
          LostError: when runs could not be executed; all others have been by then.
        """
        ...

    def cancel(self) -> None:
        """Execute nothing more. What was committed stays."""
        ...


def execute_all(
    executor: Executor,
    runs: Runs,
    ask: Callable[[], bool],
    report: Callable[[list[RunKey]], None] | None = None,
) -> None:
    """Have runs executed until they end.

    Args:
      executor: what executes them.
      runs: the runs.
      ask: whether to stop.
      report: called with the runs that have ended since the last call.

    Raises:
      Interrupted: when `ask` said so.
      LostError: when runs could not be executed.
    """
    try:
        executor.submit(runs)
        for ended in executor.as_completed(ask):
            if report is not None:
                report(ended)
    finally:
        executor.cancel()


def all_runs(cells: Sequence[Cell]) -> Runs:
    """Configurations under all of their seeds."""
    return [(cell, tuple(cell.scenario.spec.seeds)) for cell in cells]


def unfinished_and_ended(runs: Runs, run_files: RunFiles) -> tuple[Runs, list[RunKey]]:
    """Sort runs by their journals into those that have not ended, and those that have.

    A run whose journal is damaged is in neither: this process reads it later, and reports what is
    wrong.
    """
    unfinished: Runs = []
    ended: list[RunKey] = []
    for cell, seeds in runs:
        label = label_of(cell.key_columns)
        unfinished_seeds = []
        for seed in seeds:
            with contextlib.suppress(CheckpointError):
                progress = committed(run_files.folder(label, seed), cell.scenario.spec.rounds)
                if progress is None or progress.status == "running":
                    unfinished_seeds.append(seed)
                else:
                    ended.append((label, seed))
        if unfinished_seeds:
            unfinished.append((cell, tuple(unfinished_seeds)))
    return unfinished, ended


def keys_of(runs: Runs) -> list[RunKey]:
    """The runs one by one."""
    return [(label_of(cell.key_columns), seed) for cell, seeds in runs for seed in seeds]


def count_of(runs: Runs) -> int:
    """How many runs there are."""
    return sum(len(seeds) for _, seeds in runs)


def without_scenarios(runs: Runs) -> Runs:
    """Runs as they are sent to another process, which reads their scenarios itself."""
    return [(cell._replace(scenario=None), seeds) for cell, seeds in runs]  # pyright: ignore


def with_scenarios(runs: Runs, document: Document) -> Runs:
    """Runs that were sent here, with their scenarios.

    Args:
      runs: the result of `without_scenarios`.
      document: the scenario without its grid.

    Raises:
      Failure: for what could be read where it was sent from, but not here.
    """
    complete: Runs = []
    for cell, seeds in runs:
        scenario = read(document, cell.edits, cell.definition)
        complete.append((cell._replace(scenario=scenario), seeds))
    return complete
