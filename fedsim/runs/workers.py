"""Several processes that execute the runs of a grid, each run into a journal of its own, which the parent reads.

The parent is one of them: it has imported everything, and plays its first part while the others start.

What compiles to the same programs is a family, and mostly stays with the process that has compiled it: then all of them
together compile about as much as one process would. A family is dealt in parts, a few seeds of all of its cells, so that
the processes end at about the same time.
"""

import contextlib
import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from fedsim.engine.loop import MOST
from fedsim.runs.filenames import Layout, label_of
from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

CACHE = (  # settings of JAX
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
PDEATHSIG = 1  # of Linux' prctl: a signal when the parent dies, whatever killed it


Run = tuple[str, int]  # the label of its configuration, and its seed


class Part(NamedTuple):
    """Runs that one process executes side by side, where that can be."""

    cells: list[Cell]  # of one family, without their scenarios, which each process reads for itself
    seeds: tuple[int, ...]


def execute_ahead(
    document: Document,
    cells: Sequence[Cell],
    layout: Layout,
    jobs: int,
    device: str | None,
    threads: int | None,
    ask: Callable[[], bool],
    ended: Callable[[Sequence[Run]], None] = lambda runs: None,
) -> None:
    """Execute all runs that are not finished yet, so many at a time; a run that fails fails again for the caller.

    Args:
      document: the scenario without its grid.
      cells: of the grid.
      layout: of the run directory, which the caller holds.
      jobs: processes, this one among them.
      device: as `devices_of` takes it.
      threads: of XLA's pool.
      ask: whether to come to rest.
      ended: called with the runs that have ended since.
    """
    from fedsim.scenario.plugins import ENABLED

    families, latest = _families(cells, jobs), dict[int, int]()  # process -> family
    play = functools.partial(_execute, document=document, layout=layout, device=device, threads=threads)
    context, begin = multiprocessing.get_context("spawn"), (os.getpid(), tuple(ENABLED), _cache())
    parent, lock = jobs - 1, threading.Lock()
    workers = [ProcessPoolExecutor(1, context, _begin, begin) for _ in range(parent)]

    def take(process: int) -> Part | None:
        with lock:
            family = None if ask() else _next(families, latest, process)
            if family is None:
                return None
            latest[process] = family
            return families[family].pop()

    def play_all(process: int) -> None:
        while (part := take(process)) is not None:
            runs = play(part=part, ask=ask) if process == parent else workers[process].submit(play, part=part).result()
            with lock:
                ended(runs)

    try:
        for worker in workers:  # which end with the thread that started them: this one
            worker.submit(os.getpid)
        with ThreadPoolExecutor(parent) as feeding:
            playing = [feeding.submit(play_all, worker) for worker in range(parent)]
            try:
                play_all(parent)
                while not ask() and wait(playing, timeout=0.5).not_done:
                    pass
            finally:
                with lock:
                    families.clear()  # after an error nothing new is begun
                for process in [p for worker in workers for p in (worker._processes or {}).values()] if ask() else []:
                    process.terminate()  # what they have committed stays
        for played in playing if not ask() else ():
            try:
                played.result()
            except BrokenProcessPool:
                warnings.warn("a process of the comparison is gone; going on without it", stacklevel=2)
    finally:
        for worker in workers:
            worker.shutdown(wait=True, cancel_futures=True)


def _families(cells: Sequence[Cell], jobs: int) -> list[list[Part]]:
    """The runs of a grid in parts, those that compile to the same programs together."""
    families: dict[Any, list[Cell]] = {}
    for cell in cells:
        families.setdefault(programs_of(cell), []).append(cell)
    least, dealt = max(-(-2 * jobs // len(families)), 2), []  # parts of each, so that the last ones can be shared
    for family in families.values():
        seeds = list(dict.fromkeys(seed for cell in family for seed in cell.scenario.spec.seeds))
        count = max(-(-len(seeds) * len(family) // MOST), least)  # of about as many runs as train side by side
        by_seed = min(count, len(seeds))
        by_cell = min(-(-count // by_seed), len(family))
        named = [cell._replace(scenario=None) for cell in family]  # which each process reads for itself
        dealt.append(
            [Part(named[j::by_cell], tuple(seeds[i::by_seed])) for i in range(by_seed) for j in range(by_cell)]
        )
    return dealt


def programs_of(cell: Cell) -> Hashable:
    """What decides which programs a cell compiles to: equal cells are equal here, and few others."""
    from fedsim.assemble.programs import Written, client_key

    spec = cell.scenario.spec
    links = tuple(tuple(map(Written, sections)) for sections in (spec.wire, spec.server, spec.broadcast))
    return client_key(spec.client), *links, repr((spec.model, spec.schedule, spec.numerics))


def _next(families: Sequence[Sequence[Part]], latest: Mapping[int, int], worker: int) -> int | None:
    """The family of the next part of a worker: its own, or else one that nobody has compiled, or that has most left."""
    left = [family for family, parts in enumerate(families) if parts]
    if latest.get(worker) in left:
        return latest[worker]
    fresh = [family for family in left if family not in latest.values()]
    return max(fresh or left, key=lambda family: len(families[family]), default=None)


def _cache() -> dict[str, Any]:
    """Where this process keeps compiled programs, and which."""
    import jax

    return {name: jax.config.values[name] for name in CACHE}


def _begin(parent: int, plugins: tuple[str, ...], cache: dict[str, Any]) -> None:
    """Each worker ends with its parent, knows its plug-ins, and finds the compiled programs that its parent would."""
    end_with(parent)
    import jax

    for name, value in cache.items():
        jax.config.update(name, value)
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
    part: Part,
    layout: Layout,
    device: str | None,
    threads: int | None,
    ask: Callable[[], bool] = bool,
) -> list[Run]:
    """Execute some cells under some of their seeds, side by side where they can be -> which runs.

    A failure is left to the parent, which has it again, with its reason, when it reads the journals.
    """
    from fedsim.assemble.experiment import numerics
    from fedsim.runs.execute import execute
    from fedsim.runs.sweep import swept
    from fedsim.scenario import read

    within = lambda scenario: numerics(scenario, threads, device)
    cells = [cell._replace(scenario=read(document, cell.edits, cell.written)) for cell in part.cells]
    wanted_seeds = lambda plans: [
        planned._replace(seeds=[s for s in planned.seeds if s in part.seeds]) for planned in plans
    ]
    run_all = lambda plans: execute(wanted_seeds(plans), layout, None, None, ask)
    with contextlib.suppress(Exception), within(cells[0].scenario) as devices:
        swept(cells, devices, within, run_all, _partition())
    return [(label_of(cell.who), seed) for cell in cells for seed in cell.scenario.spec.seeds if seed in part.seeds]


@functools.cache
def _partition() -> Any:
    """One for all parts of this process: mostly they are over the same samples."""
    from fedsim.runs.sweep import cached_partition

    return cached_partition()
