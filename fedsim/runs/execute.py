"""Runs of experiments, seed by seed, each recorded in a journal from which it can go on."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.assemble import Experiment
from fedsim.assemble.memory import allocations
from fedsim.disk import files
from fedsim.engine.loop import banked, events
from fedsim.engine.processes import joined, shared
from fedsim.engine.records import Program
from fedsim.engine.run import CommitPoint, Row, Run
from fedsim.errors import CorruptError, Interrupted
from fedsim.machine import forget_programs
from fedsim.runs.filenames import Layout, label_of
from fedsim.runs.final_tables import add_final_tables
from fedsim.runs.journal import Journal, Pace
from fedsim.runs.record import identity
from fedsim.runs.result import Numerics, Result


class Planned(NamedTuple):
    """An experiment that is to be executed.

    Attributes:
      experiment: to execute.
      record: the content of its `run.json`.
      who: first columns of every row, `method` among them.
      numerics: the context to compute in.
      seeds: of its runs.
    """

    experiment: Experiment
    record: dict[str, Any]
    who: dict[str, Any]
    numerics: Numerics
    seeds: Sequence[int]


class Recording(NamedTuple):
    """A run, its journal, and the first columns of its rows."""

    run: Run
    journal: Journal
    who: dict[str, Any]
    experiment: Experiment


Watch = Callable[
    [Experiment, int, Row], None
]  # (experiment, seed, row), after every evaluated round
Listener = Callable[
    [Recording, Row | None], None
]  # a run that begins or goes on (None), then every row of it


class Configuration(NamedTuple):
    """What a comparison is to play of one configuration.

    Attributes:
      number: of the configuration, from 1.
      runs: how many.
      rounds: of each.
      program: equal for configurations that compile to the same programs.
    """

    number: int
    runs: int
    rounds: int
    program: Hashable


class Ended(NamedTuple):
    """A run of a comparison that was played elsewhere, and has ended.

    Attributes:
      label: of its configuration.
      rounds: that it took; 0 where it failed.
      wall_seconds: that passed for it.
      compile_seconds: those of them in which programs were compiled.
    """

    label: str
    rounds: int = 0
    wall_seconds: float = 0.0
    compile_seconds: float = 0.0


def listener(watch: Watch | None, log: Listener | None) -> Listener:
    """One listener out of a user's `watch` and the trackers."""
    enters = getattr(watch, "enters", lambda who: None)
    goes_on = getattr(watch, "goes_on", lambda experiment, seed, run: None)

    def listen(recording: Recording, row: Row | None) -> None:
        enters(recording.who)
        if row is None:
            goes_on(recording.experiment, recording.who["seed"], recording.run)
        elif watch:
            watch(recording.experiment, recording.who["seed"], row)
        if log:
            log(recording, row)

    return listen


def execute(
    planned: Sequence[Planned],
    layout: Layout | None,
    calls: int | None,
    listen: Listener | None,
    ask: Callable[[], bool],
) -> list[Result]:
    """All runs of experiments that train by one program (call it inside their numerics) -> a result for each.

    Args:
      planned: the experiments.
      layout: of the run directory; None: nothing is written.
      calls: device calls per block.
      listen: called with every run and every row.
      ask: whether to come to rest.

    Raises:
      Interrupted: when `ask` said so.
    """
    results = [Result(one.experiment, one.who) for one in planned]
    runs = [(i, seed) for i, one in enumerate(planned) for seed in one.seeds]
    runs.sort(
        key=lambda run: list(planned[run[0]].seeds).index(run[1])
    )  # runs of a seed have their batches in common
    model_bytes = tree.nbytes(next(iter(planned[0].experiment.shared.values())))
    programs = [planned[i].experiment.program for i, _ in runs]
    groups, program = banked(
        programs, [planned[i].experiment.plans[seed] for i, seed in runs], model_bytes
    )
    for first, last in groups:
        group = runs[first:last]
        if ask():
            raise Interrupted(f"before seed {group[0][1]}")
        recordings = [_recording(planned[i], layout, seed) for i, seed in group]
        with allocations(planned[0].experiment.scenario, planned[0].experiment.counted):
            run_group(recordings, program, calls, listen, ask)
        for (i, seed), recording in zip(group, recordings, strict=True):
            recording.run.release()
            results[i].keep(seed, recording.journal, recording.run, planned[i].numerics)
        forget_programs()
    return results


def _recording(planned: Planned, layout: Layout | None, seed: int) -> Recording:
    """A run with its journal, and its folder where there is a run directory."""
    pace, folder = planned.experiment.scenario.spec.checkpoint, None
    if layout:
        folder = layout.folder(label_of(planned.who), seed)
        files.make_folder(folder)
    journal = Journal(folder, identity(planned.record, seed), Pace(pace.seconds, pace.rounds))
    run, who = planned.experiment.run(seed, folder), {**planned.who, "seed": seed}
    return Recording(run=run, journal=journal, who=who, experiment=planned.experiment)


def run_group(
    recordings: Sequence[Recording],
    program: Program,
    calls: int | None,
    listen: Listener | None,
    ask: Callable[[], bool],
) -> None:
    """Runs side by side from their last commits to their ends, or to the rest that was asked for."""
    for recording in recordings:
        _resume(recording.run, recording.journal)
        if recording.run.close():
            _close(recording)
        if listen:
            listen(recording, None)
    going = {
        id(recording.run): recording
        for recording in recordings
        if recording.run.status == "running"
    }
    if not going:
        return
    due = lambda r: ask() or any(recording.journal.due(r) for recording in going.values())
    resident = (
        min(recording.experiment.scenario.spec.data.resident_mb for recording in recordings) * 1e6
    )
    resident = 0.0 if joined() else resident  # each process is handed what its lanes read
    for event in events(
        [recording.run for recording in going.values()], program, due, calls, resident
    ):
        if isinstance(event, CommitPoint):
            for run in event.runs:
                going[id(run)].journal.commit(run.snapshot(), run.store.files())
            if ask():
                seeds = [going[id(run)].who["seed"] for run in event.runs]
                of = f"{len(seeds)} runs" if len(seeds) > 1 else f"seed {seeds[0]}"
                raise Interrupted(f"after round {event.round} of {of}")
            continue
        run, row = event
        _write(going[id(run)], row)
        if listen:
            listen(going[id(run)], row)


def _resume(run: Run, journal: Journal) -> None:
    """Go on from the last commit, where there is one."""
    last = journal.last(run.rounds)
    if last is not None:
        try:
            run.restore(last)
        except (
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
        ) as error:  # a commit that is whole, and of no run
            raise CorruptError(
                f"{journal.folder}: the commit of round {journal.round} is damaged: {error!r}"
            ) from None
    if joined():
        known = shared(run.snapshot(portable=True) if last is not None else None)
        if known is not None and last is None:
            run.restore(known)


def _write(recording: Recording, row: Row) -> None:
    """An evaluated round into the journal; after the last one, the tables of the run as well, and a commit."""
    journal, who = recording.journal, recording.who
    if row.extra:
        journal.mark()
    journal.add("rounds", {**who, **row.values})
    journal.add("timing", {**who, **row.timing})
    if not row.extra:
        journal.mark()
    if row.status != "running":
        _close(recording)


def _close(recording: Recording) -> None:
    """The tables of a run that has ended, and its last commit."""
    run, journal, who, experiment = recording
    spec = experiment.scenario.spec
    add_final_tables(journal, run, who, spec.evaluate, several=len(spec.seeds) > 1)
    journal.commit(run.snapshot(), run.store.files())
