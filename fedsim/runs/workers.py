"""The carrier of tasks to several processes of this machine.

This process is one of them: it has imported everything, and executes its first task while the
others start. A family of tasks mostly stays with the process that has compiled it: then all
processes together compile about as much as one would.
"""

import contextlib
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from fedsim.engine.loop import MAX_RUNS
from fedsim.runs.executor import Runs, next_family, tasks_by_family, with_scenarios
from fedsim.runs.filenames import RunFiles
from fedsim.runs.spawned import begin, compile_cache
from fedsim.runs.sweep import Partitioner, run_sweep
from fedsim.scenario.plugins import ENABLED
from fedsim.scenario.reader import Document


class Workers:
    """Brings tasks to processes of this machine; a `Carrier`.

    A run that fails, or whose process is lost, has no end in its journal.

    Args:
      jobs: how many processes there are, this one among them.
    """

    name = "--jobs"

    def __init__(
        self,
        document: Document,
        run_files: RunFiles,
        jobs: int,
        device: str | None,
        threads: int | None,
        partition: Partitioner,
        ask: Callable[[], bool],
    ):
        self.execute = partial(
            _execute, document=document, run_files=run_files, device=device, threads=threads
        )
        self.jobs = jobs

        # The other processes, each alone in its pool, and a thread of this process.
        self.pools: list[ProcessPoolExecutor] = []
        self.thread = ThreadPoolExecutor(1)
        self.thread_stops = threading.Event()
        self.execute_here = partial(
            self.execute,
            ask=lambda: ask() or self.thread_stops.is_set(),
            partition=partition,
        )

        # By process: what starts a task, its latest task, and the family of that.
        self.starters: dict[int, Callable[[Runs], Future[None]]] = {}
        self.latest: dict[int, Future[None]] = {}
        self.latest_family: dict[int, int] = {}

    def prepare(self, runs: Runs) -> list[list[Runs]]:
        """Start the other processes, and cut the runs into tasks that train side by side."""
        context = multiprocessing.get_context("spawn")
        arguments = (os.getpid(), tuple(ENABLED), compile_cache())
        for _ in range(self.jobs - 1):
            self.pools.append(ProcessPoolExecutor(1, context, begin, arguments))

        # A process ends with the thread that has started it, so it must be started from this one.
        for pool in self.pools:
            pool.submit(os.getpid)

        starters = [partial(pool.submit, self.execute) for pool in self.pools]
        starters.append(partial(self.thread.submit, self.execute_here))
        self.starters = dict(enumerate(starters))
        return tasks_by_family(runs, self.jobs, most=MAX_RUNS, least=2)

    def start(self, families: list[list[Runs]]) -> dict[Future[None], Runs]:
        """Give every idle process its next task, while there is one."""
        started: dict[Future[None], Runs] = {}
        for process, start in list(self.starters.items()):
            if process in self.latest and not self.latest[process].done():
                continue
            family = next_family(families, self.latest_family, process)
            if family is None:
                break
            task = families[family][-1]
            try:
                future = start(task)
            except BrokenProcessPool:
                self._lose(process)
                continue
            families[family].pop()
            self.latest[process] = future
            self.latest_family[process] = family
            started[future] = task
        return started

    def receive(self, future: Future[None]) -> str:
        """Only notice where the process was lost: the caller executes its runs again."""
        if isinstance(future.exception(), BrokenProcessPool):
            (process,) = (key for key, latest in self.latest.items() if latest is future)
            self._lose(process)
        return ""

    def is_gone(self) -> bool:
        """This process is there."""
        return False

    def stop(self, futures: Sequence[Future[None]]) -> None:
        """End the other processes, at once where they are at work; the thread stops, too."""
        self.thread_stops.set()
        if futures:
            for pool in self.pools:
                for process in list((pool._processes or {}).values()):
                    process.terminate()  # what it has committed stays
        for pool in (*self.pools, self.thread):
            pool.shutdown(wait=True, cancel_futures=True)

    def _lose(self, process: int) -> None:
        """Continue with one process less: by its latest task or its next one it is seen first."""
        if self.starters.pop(process, None) is not None:
            text = "a process of the comparison is gone; continuing without it"
            warnings.warn(text, stacklevel=2)


def _execute(task: Runs, *, document: Document, **options: Any) -> None:
    """Execute a task.

    Failures are ignored: the parent executes the run again, and then learns the reason.
    """
    with contextlib.suppress(Exception):
        run_sweep(with_scenarios(task, document), **options)
