"""Runs of one experiment, seed by seed, each into a journal from which it can go on."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.build import Experiment
from fedsim.disk import files
from fedsim.disk.tables import Record
from fedsim.engine.loop import banked, events
from fedsim.engine.processes import joined, shared
from fedsim.engine.round import Program
from fedsim.engine.run import Quiesced, Row, Run
from fedsim.errors import CorruptError, Interrupted
from fedsim.runs import directory
from fedsim.runs.journal import Journal, Pace
from fedsim.runs.record import identity
from fedsim.runs.result import Result, close, label_of, slug

Watch = Callable[[Experiment, int, Row], None]


class Entry(NamedTuple):
    """An experiment to be played.

    Attributes:
      experiment: what is run.
      record: what `run.json` says of it.
      who: first columns of every row, `method` among them.
      within: the context of its numerics.
      seeds: under which it is played.
    """

    experiment: Experiment
    record: dict[str, Any]
    who: dict[str, Any]
    within: Callable[[], Any]
    seeds: Sequence[int]


class Game(NamedTuple):
    """A run, its journal, and the first columns of its rows."""

    run: Run
    journal: Journal
    who: dict[str, Any]
    experiment: Experiment


Tell = Callable[[dict[str, Any], Experiment, dict[str, list[Record]]], None]  # (who, experiment, tables of its journal)
Show = Callable[[Game, Row | None], None]


def shown(watch: Watch | None, tell: Tell | None) -> Show:
    """What is done with a run as soon as it is taken up (None), and with every row: two kinds of listeners, one call."""

    def show(game: Game, row: Row | None) -> None:
        if watch and row:
            watch(game.experiment, game.who["seed"], row)
        if tell:
            tell(game.who, game.experiment, game.journal.records)

    return show


def played(
    entries: Sequence[Entry], path: Path | None, calls: int | None, show: Show | None, ask: Callable[[], bool]
) -> list[Result]:
    """All runs of experiments that train by one program (call it inside their numerics) -> a result for each.

    Args:
      entries: the experiments.
      path: of the run directory; None: nothing is written.
      calls: device calls per block.
      show: is told of every run that is taken up, and of every row.
      ask: whether to come to rest.
    """
    results = [Result(entry.experiment, entry.who) for entry in entries]
    runs = [(i, seed) for i, entry in enumerate(entries) for seed in entry.seeds]
    runs.sort(key=lambda run: list(entries[run[0]].seeds).index(run[1]))  # runs of a seed have their batches in common
    programs = [entries[i].experiment.program for i, _ in runs]
    plans = [entries[i].experiment.plans[seed] for i, seed in runs]
    groups, program = banked(programs, plans, _model_bytes(entries[0].experiment))
    for first, last in groups:
        group = runs[first:last]
        if ask():
            raise Interrupted(f"before seed {group[0][1]}")
        games = [_game(entries[i], path, seed) for i, seed in group]
        play(games, program, calls, show, ask)
        for (i, seed), game in zip(group, games, strict=True):
            game.run.release()
            results[i].keep(seed, game.journal, game.run, _scoped(entries[i].within))
    return results


def _model_bytes(experiment: Experiment) -> int:
    return tree.payload_bytes(next(iter(experiment.shared.values())))


def _scoped(within: Callable[[], Any]) -> Callable[[Callable], Callable]:
    """What is asked of a result later is computed in the numerics of its run, once."""

    def scoped(compute: Callable) -> Callable:
        def later():
            with within():
                return compute()

        return functools.cache(later)

    return scoped


def _game(entry: Entry, path: Path | None, seed: int) -> Game:
    journal, folder = journal_of(entry, path, seed)
    return Game(entry.experiment.run(seed, folder), journal, {**entry.who, "seed": seed}, entry.experiment)


def journal_of(entry: Entry, path: Path | None, seed: int) -> tuple[Journal, Path | None]:
    """The journal of a seed, and the folder for its files."""
    pace = entry.experiment.scenario.spec.checkpoint
    folder = None
    if path:
        folder = folder_of(path, label_of(entry.who), seed)
        files.make_folder(folder)
    return Journal(folder, identity(entry.record, seed), Pace(pace.seconds, pace.rounds)), folder


def folder_of(path: Path, label: str, seed: int) -> Path:
    """Where a run directory keeps the log and the commits of a seed; `label` of the method, and variant if there is one."""
    return path / directory.COMMITS / f"{slug(label)}.{seed}"


def play(
    games: Sequence[Game], program: Program, calls: int | None, show: Show | None, ask: Callable[[], bool]
) -> None:
    """Runs side by side from their last commits to their ends, or to the rest that was asked for."""
    for game in games:
        _take_up(game.run, game.journal)
        if show:
            show(game, None)
    going = {id(game.run): game for game in games if game.run.status == "running"}
    if not going:
        return
    due = lambda r: ask() or any(game.journal.due(r) for game in going.values())
    resident = min(game.experiment.scenario.spec.data.resident_mb for game in games) * 1e6
    for event in events([game.run for game in going.values()], program, due, calls, resident):
        if isinstance(event, Quiesced):
            for run in event.runs:
                going[id(run)].journal.commit(run.snapshot(), run.store.files())
            if ask():
                some = [going[id(run)].who["seed"] for run in event.runs]
                of = f"{len(some)} runs" if len(some) > 1 else f"seed {some[0]}"
                raise Interrupted(f"after round {event.round} of {of}")
            continue
        run, row = event
        game = going[id(run)]
        _write(game, row)
        if show:
            show(game, row)


def _take_up(run: Run, journal: Journal) -> None:
    """Go on from the last commit, where there is one."""
    last = journal.last(run.rounds)
    if last is not None:
        try:
            run.restore(last)
        except (KeyError, IndexError, TypeError, AttributeError) as error:  # a commit that is whole, and of no run
            raise CorruptError(f"{journal.folder}: the commit of round {journal.round} is damaged: {error!r}") from None
    if joined():
        known = shared(run.snapshot(portable=True) if last is not None else None)
        if known is not None and last is None:
            run.restore(known)


def _write(game: Game, row: Row) -> None:
    """An evaluated round into the journal; after the last one, the tables of the run as well, and a commit."""
    run, journal, who, experiment = game
    if row.extra:
        journal.mark()
    journal.add("rounds", {**who, **row.values})
    journal.add("timing", {**who, **row.timing})
    if not row.extra:
        journal.mark()
    if row.status != "running":
        spec = experiment.scenario.spec
        close(journal, run, who, spec.evaluate, several=len(spec.seeds) > 1)
        journal.commit(run.snapshot(), run.store.files())
