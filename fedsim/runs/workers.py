"""Several processes that execute the runs of a grid, each run into a journal of its own, which the parent reads."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

PDEATHSIG = 1  # of Linux' prctl: a signal when the parent dies, whatever killed it


def execute_ahead(
    document: Document,
    cells: Sequence[Cell],
    path: Path,
    jobs: int,
    device: str | None,
    threads: int | None,
    ask: Callable[[], bool],
    ended: Callable[[int], None] = lambda runs: None,
) -> None:
    """Execute all runs that are not finished yet, so many at a time; a run that fails fails again for the caller.

    Args:
      document: the scenario without its grid.
      cells: of the grid.
      path: of the run directory, which the caller holds.
      jobs: processes.
      device: as `devices_of` takes it.
      threads: of XLA's pool.
      ask: whether to come to rest.
      ended: called with how many runs more have ended.
    """
    from fedsim.scenario.plugins import ENABLED

    share = -(-4 * jobs // len(cells))  # of a cell: few parts, since each is built anew, and enough to keep all busy
    parts = [(cell, tuple(cell.scenario.spec.seeds[i::share])) for cell in cells for i in range(share)]
    same = {"document": document, "path": path, "device": device, "threads": threads}
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _begin, (os.getpid(), tuple(ENABLED)))
    try:
        waiting = {
            pool.submit(_execute, edits=cell.edits, method=cell.written, who=cell.who, seeds=seeds, **same)
            for cell, seeds in parts
            if seeds
        }
        while waiting and not ask():
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                warnings.warn("a process of the comparison is gone; going on with one", stacklevel=2)
                return
            ended(sum(future.result() for future in done))
    finally:
        for process in list((pool._processes or {}).values()) if ask() else []:
            process.terminate()  # what they have committed stays
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, plugins: tuple[str, ...]) -> None:
    """Each worker ends with its parent, and knows its plug-ins."""
    end_with(parent)
    from fedsim.scenario import enable

    for plugin in plugins:
        enable(plugin)


def end_with(parent: int) -> None:
    """This process leaves Ctrl-C to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _execute(
    document: Document,
    edits: tuple[str, ...],
    method: Any,
    who: dict[str, Any],
    seeds: tuple[int, ...],
    path: Path,
    device: str | None,
    threads: int | None,
) -> int:
    """Build one cell and execute it under some of its seeds -> how many.

    A failure is left to the parent, which has it again, with its reason, when it reads the journals.
    """
    from fedsim.build import build
    from fedsim.build.experiment import numerics
    from fedsim.runs.execute import Planned, execute
    from fedsim.runs.record import record_of
    from fedsim.scenario import read

    with contextlib.suppress(Exception):
        scenario = read(document, edits, method)
        within = lambda: numerics(scenario, threads, device)
        with within() as devices:
            experiment = build(scenario, devices=devices)
            record = {**record_of(experiment, devices, []), "method": who["method"]}
            planned = Planned(experiment=experiment, record=record, who=who, numerics=within, seeds=seeds)
            execute([planned], path, None, None, lambda: False)
    return len(seeds)
