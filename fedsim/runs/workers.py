"""Several processes of this machine that play the runs of a comparison.

This process is one of them: it has imported everything, and plays its first part while the others
start.

What compiles to the same programs is a family, and mostly stays with the process that has compiled
it: then all of them together compile about as much as one process would. A family is dealt in
parts, a few seeds of all of its cells, so that the processes end at about the same time.
"""

import contextlib
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures import ProcessPoolExecutor as Processes
from concurrent.futures import ThreadPoolExecutor as Threads
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from fedsim.engine.loop import MOST
from fedsim.errors import Interrupted
from fedsim.runs.executor import Part, Run, runs_in, with_scenarios, without_scenarios
from fedsim.runs.filenames import Layout
from fedsim.runs.spawned import begin, compile_cache
from fedsim.runs.sweep import Partition, played
from fedsim.scenario.plugins import ENABLED
from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

LOOK = 0.5  # seconds between two looks whether to come to rest


class Workers:
    """Processes of this machine that play runs; an `Executor`.

    A run that fails, or whose process is gone, has no end in its journal: whoever asked for it has
    to play it itself.

    Args:
      document: the scenario without its grid.
      layout: of the run directory, which the caller holds.
      jobs: processes, this one among them.
      device: as `devices_of` takes it.
      threads: of XLA's pool.
      partition: as of `cached_partition`, for this process.
    """

    def __init__(
        self,
        document: Document,
        layout: Layout,
        jobs: int,
        device: str | None,
        threads: int | None,
        partition: Partition,
    ):
        self.play = partial(_play, document=document, layout=layout, device=device, threads=threads)
        self.jobs = jobs
        self.partition = partition
        self.resting = threading.Event()  # this process comes to rest
        self.processes: list[Processes] = []  # the others, each alone in its pool
        self.here = Threads(1)  # of this process
        self.families: list[list[Part]] = []  # parts that nobody plays yet
        self.latest: dict[int, int] = {}  # process -> the family of its latest part
        self.going: dict[Future[None], tuple[int, Part]] = {}  # process and part

    def slots(self) -> int:
        """How many processes there are."""
        return self.jobs

    def submit(self, runs: Part) -> None:
        """Deal out the runs, and start the other processes."""
        self.families = _families(runs, self.jobs)
        if not self.families:
            return
        context = multiprocessing.get_context("spawn")
        setting = (os.getpid(), tuple(ENABLED), compile_cache())
        for _ in range(self.jobs - 1):
            self.processes.append(Processes(1, context, begin, setting))
        for process in self.processes:  # which end with the thread that started them: this one
            process.submit(os.getpid)

    def as_ended(self, ask: Callable[[], bool]) -> Iterator[list[Run]]:
        """Runs as they end; see `Executor`."""
        rest = lambda: ask() or self.resting.is_set()
        play_here = partial(self.play, ask=rest, partition=self.partition)
        players = [partial(process.submit, self.play) for process in self.processes]
        players.append(partial(self.here.submit, play_here))
        for number, player in enumerate(players):
            self._hand_out(number, player)
        while self.going:
            if ask():
                raise Interrupted(f"with {self._count()} runs to go")
            done, _ = wait(self.going, LOOK, FIRST_COMPLETED)
            for future in done:
                number, part = self.going.pop(future)
                try:
                    future.result()
                except BrokenProcessPool:
                    _warn_of_lost()
                    continue
                self._hand_out(number, players[number])
                yield runs_in(part)

    def cancel(self) -> None:
        """End the other processes, at once where they play; this one comes to rest."""
        self.families.clear()
        self.resting.set()
        for pool in self.processes if self.going else ():
            for process in list((pool._processes or {}).values()):
                process.terminate()  # what it has committed stays
        for pool in (*self.processes, self.here):
            pool.shutdown(wait=True, cancel_futures=True)

    def _hand_out(self, number: int, player: Callable[[Part], Future[None]]) -> None:
        """The next part for a process that has none, as long as there is one."""
        family = _next(self.families, self.latest, number)
        if family is None:
            return
        part = self.families[family].pop()
        try:
            self.going[player(part)] = number, part
            self.latest[number] = family
        except BrokenProcessPool:
            self.families[family].append(part)
            _warn_of_lost()

    def _count(self) -> int:
        """How many runs have not ended."""
        waiting = [part for parts in self.families for part in parts]
        going = [part for _, part in self.going.values()]
        return sum(len(runs_in(part)) for part in (*waiting, *going))


def _warn_of_lost() -> None:
    warnings.warn("a process of the comparison is gone; going on without it", stacklevel=2)


def _families(runs: Part, jobs: int) -> list[list[Part]]:
    """Runs in parts, those that compile to the same programs together."""
    families: dict[Hashable, Part] = {}
    for cell, seeds in runs:
        families.setdefault(programs_of(cell), []).append((cell, seeds))
    if not families:
        return []
    least = max(-(-2 * jobs // len(families)), 2)  # so that the last parts can be shared
    return [_parts(without_scenarios(family), least) for family in families.values()]


def _parts(family: Part, least: int) -> list[Part]:
    """A family in parts of about as many runs as train side by side, `least` of them if it can be."""
    seeds = list(dict.fromkeys(seed for _, own in family for seed in own))
    count = max(-(-len(seeds) * len(family) // MOST), least)
    by_seed = min(count, len(seeds))
    by_cell = min(-(-count // by_seed), len(family))
    parts = []
    for i in range(by_seed):
        chosen = set(seeds[i::by_seed])
        for j in range(by_cell):
            part = [
                (cell, tuple(seed for seed in own if seed in chosen))
                for cell, own in family[j::by_cell]
            ]
            parts.append([(cell, own) for cell, own in part if own])
    return [part for part in parts if part]


def programs_of(cell: Cell) -> Hashable:
    """What decides the programs that a cell compiles to: equal for equal cells, and few others."""
    from fedsim.assemble.programs import HashableSection, client_key

    spec = cell.scenario.spec
    chains = (spec.wire, spec.server, spec.broadcast)
    links = tuple(tuple(map(HashableSection, chain)) for chain in chains)
    return client_key(spec.client), *links, repr((spec.model, spec.schedule, spec.numerics))


def _next(
    families: Sequence[Sequence[Part]], latest: Mapping[int, int], process: int
) -> int | None:
    """The family of a process' next part.

    Its own, or else one that nobody has compiled, or that has most left.
    """
    left = [family for family, parts in enumerate(families) if parts]
    if latest.get(process) in left:
        return latest[process]
    fresh = [family for family in left if family not in latest.values()]
    return max(fresh or left, key=lambda family: len(families[family]), default=None)


def _play(part: Part, *, document: Document, **how: Any) -> None:
    """Play a part.

    A failure is left to the parent, which has it again, with its reason, when it plays the run.
    """
    with contextlib.suppress(Exception):
        played(with_scenarios(part, document), **how)
