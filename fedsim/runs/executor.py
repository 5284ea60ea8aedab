"""The runs of a comparison that other processes execute, and the tasks that they are cut into.

Other processes of this machine and the workers of a cluster are two carriers of tasks; what is
around them stands here. Every run is written into its journal, and read from there afterwards,
whoever has executed it.

Cells that compile to the same programs are a family. It is cut into tasks, a few seeds of all of
its cells, so that everybody who executes them ends at about the same time.
"""

import contextlib
import math
import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Any, Protocol

from fedsim.errors import CheckpointError, Interrupted, LostError
from fedsim.runs.commits import committed
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.scenario import read
from fedsim.scenario.reader import Document
from fedsim.study.grid import Cell

RunKey = tuple[str, int]  # the label of a configuration, and a seed
Runs = list[tuple[Cell, tuple[int, ...]]]  # configurations, and the seeds of each

LOOK_SECONDS = 0.02  # between two looks for tasks that have ended
MAX_LISTED = 3  # tasks that a message names


class Carrier(Protocol):
    """What brings tasks to other processes."""

    name: str

    def prepare(self, runs: Runs) -> list[list[Runs]]:
        """Get ready for these runs -> the tasks that they are cut into, by family."""
        ...

    def start(self, families: list[list[Runs]]) -> dict[Any, Runs]:
        """Take as many tasks out of their families as can be taken now -> their futures."""
        ...

    def receive(self, future: Any) -> str:
        """Take over what a task has done -> why its runs are lost; empty where they are not."""
        ...

    def is_gone(self) -> bool:
        """Whether nobody is left to execute tasks."""
        ...

    def stop(self, futures: Sequence[Any]) -> None:
        """Execute nothing more of these tasks and no others. What was committed stays."""
        ...


def execute_elsewhere(
    carrier: Carrier, runs: Runs, ask: Callable[[], bool]
) -> Generator[list[RunKey]]:
    """Execute runs outside this process, and yield them as they end.

    A run that fails has ended, too: the caller has to execute it again, to learn the reason.

    Raises:
      Interrupted: when `ask` said so.
      LostError: when runs could not be executed; all others have been by then.
    """
    active: dict[Any, Runs] = {}
    lost: dict[str, list[str]] = {}  # reason -> tasks in words
    try:
        families = carrier.prepare(runs) if runs else []
        while active := active | carrier.start(families):
            if ask():
                tasks = [*active.values(), *(task for family in families for task in family)]
                raise Interrupted(f"with {sum(len(keys_of(task)) for task in tasks)} runs to go")
            done = [future for future in active if future.done()]
            for future in done:
                task = active.pop(future)
                reason = carrier.receive(future)
                if reason:
                    lost.setdefault(reason, []).append(_in_words(task))
                yield keys_of(task)
            if carrier.is_gone():
                lost["no worker is left"] = list(map(_in_words, active.values()))
                break
            time.sleep(0 if done else LOOK_SECONDS)
    finally:
        carrier.stop(list(active))
    if lost:
        reasons = [f"{reason}: {_few(tasks)}" for reason, tasks in lost.items()]
        raise LostError(f"{carrier.name}: {'; '.join(reasons)}")


def _in_words(task: Runs) -> str:
    """The configurations and seeds of a task, in words."""
    cell, seeds = task[0]
    if len(task) > 1:
        last_cell, _ = task[-1]
        return f"{label_of(cell.key_columns)} to {label_of(last_cell.key_columns)}"
    if len(seeds) > 1:
        return f"{label_of(cell.key_columns)}, seeds {min(seeds)} to {max(seeds)}"
    return f"{label_of(cell.key_columns)}, seed {min(seeds)}"


def _few(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    text = ", ".join(names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        text += f" and {len(names) - MAX_LISTED} more"
    return text


# ------------------------------------------------------------------------------------ the runs


def all_runs(cells: Sequence[Cell]) -> Runs:
    """Configurations under all of their seeds."""
    return [(cell, tuple(cell.scenario.spec.seeds)) for cell in cells]


def unfinished_and_ended(runs: Runs, run_files: RunFiles) -> tuple[Runs, list[RunKey]]:
    """Sort runs by their journals into those that have not ended, and those that have.

    One that was played further than asked for has ended, too. A run whose journal is damaged is in
    neither: this process reads it later, and reports what is wrong.
    """
    unfinished: Runs = []
    ended: list[RunKey] = []
    for cell, seeds in runs:
        label = label_of(cell.key_columns)
        unfinished_seeds = []
        for seed in seeds:
            with contextlib.suppress(CheckpointError):
                progress = committed(run_files.folder(label, seed), cell.rounds)
                is_running = progress is not None and progress.status == "running"
                if progress is None or (is_running and progress.round <= cell.rounds):
                    unfinished_seeds.append(seed)
                else:
                    ended.append((label, seed))
        if unfinished_seeds:
            unfinished.append((cell, tuple(unfinished_seeds)))
    return unfinished, ended


def keys_of(runs: Runs) -> list[RunKey]:
    """The runs one by one."""
    return [(label_of(cell.key_columns), seed) for cell, seeds in runs for seed in seeds]


def with_scenarios(task: Runs, document: Document) -> Runs:
    """A task that was sent here, with the scenarios of its cells.

    Raises:
      Failure: for what could be read where it was sent from, but not here.
    """
    complete: Runs = []
    for cell, seeds in task:
        scenario = read(document, cell.edits, cell.definition)
        complete.append((cell._replace(scenario=scenario), seeds))
    return complete


# ----------------------------------------------------------------------------------- the tasks


def tasks_by_family(runs: Runs, slots: int, most: int, least: int) -> list[list[Runs]]:
    """Cut runs into tasks: a list for every family of cells that compile to the same programs.

    Their cells have no scenarios, which who executes them reads itself.

    Args:
      slots: how many tasks are executed side by side.
      most: about how many runs a task has at most.
      least: how many tasks a family is cut into at least, if it has enough runs.
    """
    families: dict[Hashable, Runs] = {}
    for cell, seeds in runs:
        family = families.setdefault(programs_of(cell), [])
        family.append((cell._replace(scenario=None), seeds))  # pyright: ignore[reportArgumentType]

    # So many tasks that the last ones can be shared among the slots.
    least = max(math.ceil(2 * slots / max(len(families), 1)), least)
    return [_tasks(family, most, least) for family in families.values()]


def _tasks(family: Runs, most: int, least: int) -> list[Runs]:
    """Cut a family into tasks; see `tasks_by_family`."""
    all_seeds = list(dict.fromkeys(seed for _, seeds in family for seed in seeds))
    count = max(math.ceil(len(all_seeds) * len(family) / most), least)
    seed_groups = min(count, len(all_seeds))
    cell_groups = min(math.ceil(count / seed_groups), len(family))

    tasks = []
    for i in range(seed_groups):
        chosen = set(all_seeds[i::seed_groups])
        for j in range(cell_groups):
            cells = family[j::cell_groups]
            task = [
                (cell, tuple(seed for seed in seeds if seed in chosen)) for cell, seeds in cells
            ]
            tasks.append([(cell, seeds) for cell, seeds in task if seeds])
    return [task for task in tasks if task]


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


def next_family(
    families: Sequence[Sequence[Runs]], latest: Mapping[int, int], process: int
) -> int | None:
    """Choose the family of a process' next task; None where no task is left.

    It is the family of its latest task, or else one that no process has compiled, or else the one
    with the most tasks left.

    Args:
      families: the tasks that no process has yet, by family.
      latest: the family of the latest task, by process.
    """
    left = [family for family, tasks in enumerate(families) if tasks]
    if latest.get(process) in left:
        return latest[process]
    compiled = latest.values()
    fresh = [family for family in left if family not in compiled]
    return max(fresh or left, key=lambda family: len(families[family]), default=None)
