"""All cells of a grid, those that train by one program side by side; what goes wrong with a cell is its outcome."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.build import build
from fedsim.build.federation import federations_of
from fedsim.data import Arrays, Federation
from fedsim.disk import files
from fedsim.engine.loop import MOST, alike
from fedsim.errors import CheckpointError, CorruptError, Interrupted
from fedsim.runs import directory
from fedsim.runs.comparison import Outcome
from fedsim.runs.execute import Entry, Show, played
from fedsim.runs.record import record_of
from fedsim.scenario import Scenario
from fedsim.study.grid import Cell

FATAL = (Interrupted, directory.LockedError, files.DirectoryError, CheckpointError, CorruptError)


class Sweep(NamedTuple):
    """How the cells of a grid are played.

    Attributes:
      path: of the run directory; None: nothing is written.
      devices: on which they are.
      show: is told of every run that is taken up, and of every row.
      ask: whether to come to rest.
      within: scenario -> the context of its numerics.
      deal: scenario -> its federations.
    """

    path: Path | None
    devices: list
    show: Show | None
    ask: Callable[[], bool]
    within: Callable[[Scenario], Any]
    deal: Callable[..., dict[int, Federation]]


def swept(
    cells: Sequence[Cell],
    path: Path | None,
    devices: list,
    show: Show | None,
    ask: Callable[[], bool],
    within: Callable[[Scenario], Any],
) -> list[Outcome]:
    """Every cell under all of its seeds -> what came out of each, in their order."""
    sweep, outcomes, waiting = Sweep(path, devices, show, ask, within, _dealer()), dict[int, Outcome](), {}
    for i, cell in enumerate(cells):
        try:
            entry = _entry(cell, sweep)
        except FATAL:
            raise
        except Exception as error:
            outcomes[i] = Outcome(cell, None, _said(error))
            continue
        if waiting and (len(waiting) >= MOST or not _same_samples(entry, next(iter(waiting.values())))):
            outcomes |= _outcomes(waiting, cells, sweep)
            waiting = {}
        waiting[i] = entry
    outcomes |= _outcomes(waiting, cells, sweep)
    return [outcomes[i] for i in range(len(cells))]


def _outcomes(waiting: dict[int, Entry], cells: Sequence[Cell], sweep: Sweep) -> dict[int, Outcome]:
    """Play cells over the same samples, each together with all that train as it does."""
    found: dict[int, Outcome] = {}
    while rest := {i: entry for i, entry in waiting.items() if i not in found}:
        one = next(iter(rest.values()))
        found |= _played({i: entry for i, entry in rest.items() if _joins(entry, one)}, cells, sweep)
    return found


def _entry(cell: Cell, sweep: Sweep) -> Entry:
    """A cell, built."""
    with sweep.within(cell.scenario):
        experiment = build(cell.scenario, devices=sweep.devices, partition=sweep.deal)
        record = {**record_of(experiment, sweep.devices, []), "method": cell.method}
    return Entry(experiment, record, cell.who, lambda: sweep.within(cell.scenario), list(experiment.plans))


def _same_samples(entry: Entry, other: Entry) -> bool:
    """Whether two cells hold the same samples: others are built when these are done, so that few are in memory."""
    one, two = (next(iter(e.experiment.plans.values())).federation for e in (entry, other))
    return one.x is two.x


def _joins(entry: Entry, other: Entry) -> bool:
    """Whether two cells can be played side by side."""
    one, two = entry.experiment, other.experiment
    same = one.scenario.spec.numerics == two.scenario.spec.numerics
    plans = [*one.plans.values(), *two.plans.values()]
    return same and alike([one.program, two.program], plans)


def _played(entries: dict[int, Entry], cells: Sequence[Cell], sweep: Sweep) -> dict[int, Outcome]:
    """Play cells together; when that goes wrong, each for itself, so that it is known whose fault it was."""
    try:
        with next(iter(entries.values())).within():
            results = played(list(entries.values()), sweep.path, None, sweep.show, sweep.ask)
        return {i: Outcome(cells[i], result) for i, result in zip(entries, results, strict=True)}
    except FATAL:
        raise
    except Exception as error:
        if len(entries) == 1:
            return {i: Outcome(cells[i], None, _said(error)) for i in entries}
        alone = [_played({i: entry}, cells, sweep) for i, entry in entries.items()]
        return {i: outcome for one in alone for i, outcome in one.items()}


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _dealer() -> Callable[..., dict[int, Federation]]:
    """Federations for scenarios one after another: where the next one's data are the same, so are the arrays."""
    last: dict[str, dict[int, Federation]] = {}

    def deal(scenario: Scenario, data: Arrays | None, dtype: Any) -> dict[int, Federation]:
        spec = scenario.spec
        key = f"{spec.data.model_dump_json()} {spec.data.kind} {spec.seeds} {dtype}"
        if key not in last:
            last.clear()
            last[key] = federations_of(scenario, data, dtype)
        return last[key]

    return deal
