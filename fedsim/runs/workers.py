"""The executor of several processes of this machine.

This process is one of them: it has imported everything, and executes its first task while the
others start.

Cells that compile to the same programs are a family, and mostly stay with the process that has
compiled it: then all processes together compile about as much as one would. A family is cut into
tasks, a few seeds of all of its cells, so that the processes end at about the same time.
"""

import contextlib
import math
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from fedsim.engine.loop import MAX_RUNS
from fedsim.errors import Interrupted
from fedsim.runs.executor import (
    RunKey,
    Runs,
    count_of,
    keys_of,
    with_scenarios,
    without_scenarios,
)
from fedsim.runs.filenames import RunFiles
from fedsim.runs.spawned import begin, compile_cache
from fedsim.runs.sweep import Builds, Partitioner, run_sweep
from fedsim.scenario.plugins import ENABLED
from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

ASK_SECONDS = 0.5  # between two questions whether to stop


class Workers:
    """Runs cells in processes of this machine; an `Executor`.

    A run that fails, or whose process is lost, has no end in its journal: the caller has to execute
    it again.

    Args:
      document: the scenario without its grid.
      run_files: the files of the run directory, which the caller has locked.
      jobs: how many processes there are, this one among them.
      device: as `devices_of` takes it.
      threads: the threads of XLA's pool.
      partition: a `cached_partition` for this process.
    """

    def __init__(
        self,
        document: Document,
        run_files: RunFiles,
        jobs: int,
        device: str | None,
        threads: int | None,
        partition: Partitioner,
    ):
        self.execute = partial(
            _execute, document=document, run_files=run_files, device=device, threads=threads
        )
        self.jobs = jobs
        self.builds = Builds(partition)  # of this process

        # The other processes, each alone in its pool, and a thread of this process.
        self.processes: list[ProcessPoolExecutor] = []
        self.thread = ThreadPoolExecutor(1)
        self.thread_stops = threading.Event()

        # Tasks by family that no process has yet, and those under way: (process, task).
        self.families: list[list[Runs]] = []
        self.active: dict[Future[None], tuple[int, Runs]] = {}
        self.latest_family: dict[int, int] = {}  # by process

    def slots(self) -> int:
        """How many processes there are."""
        return self.jobs

    def submit(self, runs: Runs) -> None:
        """Cut the runs into tasks, and start the other processes."""
        self.families = _tasks_by_family(runs, self.jobs)
        if not self.families:
            return
        context = multiprocessing.get_context("spawn")
        arguments = (os.getpid(), tuple(ENABLED), compile_cache())
        for _ in range(self.jobs - 1):
            self.processes.append(ProcessPoolExecutor(1, context, begin, arguments))

        # A process ends with the thread that has started it, so it must be started from this one.
        for process in self.processes:
            process.submit(os.getpid)

    def as_completed(self, ask: Callable[[], bool]) -> Iterator[list[RunKey]]:
        """Yield runs as they end; see `Executor`."""

        def thread_asks() -> bool:
            return ask() or self.thread_stops.is_set()

        execute_here = partial(self.execute, ask=thread_asks, builds=self.builds)
        starters = [partial(process.submit, self.execute) for process in self.processes]
        starters.append(partial(self.thread.submit, execute_here))
        for process, start in enumerate(starters):
            self._start_next(process, start)

        while self.active:
            if ask():
                raise Interrupted(f"with {self._count()} runs to go")
            done, _ = wait(self.active, ASK_SECONDS, FIRST_COMPLETED)
            for future in done:
                process, task = self.active.pop(future)
                try:
                    future.result()
                except BrokenProcessPool:
                    _warn_of_lost_process()
                    continue
                self._start_next(process, starters[process])
                yield keys_of(task)

    def cancel(self) -> None:
        """End the other processes, at once where they are at work; the thread stops, too."""
        self.families.clear()
        self.thread_stops.set()
        if self.active:
            for pool in self.processes:
                for process in list((pool._processes or {}).values()):
                    process.terminate()  # what it has committed stays
        for pool in (*self.processes, self.thread):
            pool.shutdown(wait=True, cancel_futures=True)

    def _start_next(self, process: int, start: Callable[[Runs], Future[None]]) -> None:
        """Give an idle process its next task, while there is one."""
        family = _next_family(self.families, self.latest_family, process)
        if family is None:
            return
        task = self.families[family].pop()
        try:
            self.active[start(task)] = (process, task)
            self.latest_family[process] = family
        except BrokenProcessPool:
            self.families[family].append(task)
            _warn_of_lost_process()

    def _count(self) -> int:
        """How many runs have not ended."""
        waiting = [task for tasks in self.families for task in tasks]
        active = [task for _, task in self.active.values()]
        return sum(map(count_of, waiting + active))


def _warn_of_lost_process() -> None:
    """Warn that the comparison continues with one process less."""
    warnings.warn("a process of the comparison is gone; continuing without it", stacklevel=2)


def _tasks_by_family(runs: Runs, jobs: int) -> list[list[Runs]]:
    """Cut runs into tasks: a list for every family of cells that compile to the same programs."""
    families: dict[Hashable, Runs] = {}
    for cell, seeds in runs:
        families.setdefault(programs_of(cell), []).append((cell, seeds))
    if not families:
        return []

    # So many tasks that the last ones can be shared among the processes.
    least = max(math.ceil(2 * jobs / len(families)), 2)
    return [_tasks(without_scenarios(family), least) for family in families.values()]


def _tasks(family: Runs, least: int) -> list[Runs]:
    """Cut a family into tasks of about as many runs as train side by side.

    Args:
      family: its runs.
      least: how many tasks there are at least, if it has enough runs.
    """
    seeds = list(dict.fromkeys(seed for _, seeds in family for seed in seeds))
    count = max(math.ceil(len(seeds) * len(family) / MAX_RUNS), least)
    seed_groups = min(count, len(seeds))
    cell_groups = min(math.ceil(count / seed_groups), len(family))

    tasks = []
    for i in range(seed_groups):
        chosen_seeds = set(seeds[i::seed_groups])
        for j in range(cell_groups):
            task = _under_seeds(family[j::cell_groups], chosen_seeds)
            if task:
                tasks.append(task)
    return tasks


def _under_seeds(runs: Runs, chosen: set[int]) -> Runs:
    """Those of some runs that are under chosen seeds."""
    restricted: Runs = []
    for cell, seeds in runs:
        seeds = tuple(seed for seed in seeds if seed in chosen)
        if seeds:
            restricted.append((cell, seeds))
    return restricted


def programs_of(cell: Cell) -> Hashable:
    """A key of the programs that a cell compiles to; it is rarely equal for different ones."""
    from fedsim.assemble.fields import fields
    from fedsim.assemble.programs import client_key, hashable_sections

    spec = cell.scenario.spec
    wire = hashable_sections(spec.wire)
    server = hashable_sections(spec.server)
    of_fields = tuple(field.server(spec) for field in fields().values())
    rest = repr((spec.model, spec.schedule, spec.numerics))
    return client_key(spec.client), wire, server, of_fields, rest


def _next_family(
    families: Sequence[Sequence[Runs]], latest: Mapping[int, int], process: int
) -> int | None:
    """Choose the family of a process' next task; None where no task is left.

    It is the family of its latest task, or else one that no process has compiled, or else the one
    with the most tasks left.

    Args:
      families: the tasks that no process has yet, by family.
      latest: the family of the latest task, by process.
      process: its number.
    """
    left = [family for family, tasks in enumerate(families) if tasks]
    if latest.get(process) in left:
        return latest[process]
    compiled = latest.values()
    fresh = [family for family in left if family not in compiled]
    return max(fresh or left, key=lambda family: len(families[family]), default=None)


def _execute(task: Runs, *, document: Document, **options: Any) -> None:
    """Execute a task.

    Failures are ignored: the parent executes the run again, and then learns the reason.
    """
    with contextlib.suppress(Exception):
        run_sweep(with_scenarios(task, document), **options)
