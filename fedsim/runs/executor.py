"""What plays the runs of a comparison.

This process, several of this machine, or the workers of a cluster: all have one interface. Every
run goes into a journal of its own, and is read there afterwards, whoever has played it.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from fedsim.errors import CheckpointError
from fedsim.runs.commits import committed
from fedsim.runs.filenames import Layout, label_of
from fedsim.scenario import read
from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

Run = tuple[str, int]  # the label of its configuration, and its seed
Part = list[tuple[Cell, tuple[int, ...]]]  # configurations, and the seeds of each


class Executor(Protocol):
    """What plays runs; every method is called once, in this order."""

    def slots(self) -> int:
        """How many runs it plays side by side, about."""
        ...

    def submit(self, runs: Part) -> None:
        """Take these runs, to be played in parts of its own choice."""
        ...

    def as_ended(self, ask: Callable[[], bool]) -> Iterator[list[Run]]:
        """Runs that have ended, as they do; one that fails has ended as well.

        Args:
          ask: whether to come to rest.

        Raises:
          Interrupted: when `ask` said so.
          LostError: when runs could not be played; all others have been by then.
        """
        ...

    def cancel(self) -> None:
        """Play nothing more. What was committed stays."""
        ...


def play(
    executor: Executor,
    runs: Part,
    ask: Callable[[], bool],
    tell: Callable[[list[Run]], None] = lambda ended: None,
) -> None:
    """Have runs played to their ends.

    Args:
      executor: that plays them.
      runs: to play.
      ask: whether to come to rest.
      tell: called with the runs that have ended since.

    Raises:
      Interrupted: when `ask` said so.
      LostError: when runs could not be played.
    """
    try:
        executor.submit(runs)
        for ended in executor.as_ended(ask):
            tell(ended)
    finally:
        executor.cancel()


def whole_runs(cells: Sequence[Cell]) -> Part:
    """Configurations under all of their seeds."""
    return [(cell, tuple(cell.scenario.spec.seeds)) for cell in cells]


def left_and_ended(runs: Part, layout: Layout) -> tuple[Part, list[Run]]:
    """Runs that have not ended, and those that have, by their journals.

    A run whose journal is damaged is neither: it is left to this process, which says what is wrong
    with it.
    """
    left: Part = []
    ended: list[Run] = []
    for cell, seeds in runs:
        label, rounds = label_of(cell.who), cell.scenario.spec.rounds
        going = []
        for seed in seeds:
            with contextlib.suppress(CheckpointError):
                done = committed(layout.folder(label, seed), rounds)
                if done is None or done.status == "running":
                    going.append(seed)
                else:
                    ended.append((label, seed))
        if going:
            left.append((cell, tuple(going)))
    return left, ended


def runs_in(part: Part) -> list[Run]:
    """The runs of a part, one by one."""
    return [(label_of(cell.who), seed) for cell, seeds in part for seed in seeds]


def without_scenarios(part: Part) -> Part:
    """A part as it travels to another process, which reads the scenarios for itself."""
    return [(cell._replace(scenario=None), seeds) for cell, seeds in part]  # pyright: ignore


def with_scenarios(part: Part, document: Document) -> Part:
    """A part that has travelled, with its scenarios.

    Args:
      part: of `without_scenarios`.
      document: the scenario without its grid.

    Raises:
      Failure: for what can be read where it was written, and not here.
    """
    read_again = lambda cell: cell._replace(scenario=read(document, cell.edits, cell.written))
    return [(read_again(cell), seeds) for cell, seeds in part]
