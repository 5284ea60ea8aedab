"""The runs of experiments, each recorded in a journal from which it can resume."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.assemble import Experiment
from fedsim.assemble.memory import allocations
from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot
from fedsim.disk.tables import Record
from fedsim.engine.frozen import without_frozen
from fedsim.engine.loop import events, group_runs
from fedsim.engine.processes import from_first_process, is_multiprocess
from fedsim.engine.program import Program
from fedsim.engine.run import CommitPoint, Row, Run
from fedsim.errors import CheckpointError, CorruptError, Interrupted
from fedsim.machine import forget_programs
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.runs.final_tables import add_final_tables
from fedsim.runs.journal import Journal, Pace
from fedsim.runs.record import identity
from fedsim.runs.result import Numerics, Result
from fedsim.runs.update_files import UpdateFiles


class Beginning(NamedTuple):
    """Where a run begins that goes on from another one.

    Attributes:
      snapshot: the state of the other run, which fits this one.
      rows: its rows until then, by table.
    """

    snapshot: Snapshot
    rows: dict[str, list[Record]]


class PlannedExperiment(NamedTuple):
    """An experiment that is to be executed.

    Attributes:
      who: the first columns of its rows, `method` among them.
      numerics: the context to compute in.
    """

    experiment: Experiment
    record: dict[str, Any]
    who: dict[str, Any]
    numerics: Numerics
    seeds: Sequence[int]


class JournaledRun(NamedTuple):
    """A run with its journal.

    Attributes:
      who: the first columns of its rows: method, variation and seed.
    """

    run: Run
    journal: Journal
    who: dict[str, Any]
    experiment: Experiment
    updates: UpdateFiles | None = None


# Called as (experiment, seed, row) after every evaluated round.
Watch = Callable[[Experiment, int, Row], None]

# Called with a run when it starts or resumes (None), and then with each of its rows.
Listener = Callable[[JournaledRun, Row | None], None]


def listener(watch: Watch | None, *listeners: Listener | None) -> Listener:
    """Combine a user's `watch` and listeners, as far as there are any, into one listener."""

    def listen(journaled: JournaledRun, row: Row | None) -> None:
        if row is not None and watch is not None:
            watch(journaled.experiment, journaled.who["seed"], row)
        for each in listeners:
            if each is not None:
                each(journaled, row)

    return listen


def execute(
    planned: Sequence[PlannedExperiment],
    run_files: RunFiles | None,
    calls: int | None,
    listen: Listener | None,
    ask: Callable[[], bool],
) -> list[Result]:
    """Execute experiments that train by one program, and return a result for each.

    It is called inside their numerics.

    Args:
      run_files: the files of the run directory; None: nothing is written.
      calls: device calls per block.

    Raises:
      Interrupted: when `ask` said so.
    """
    runs = _in_order(planned)
    ended: dict[tuple[int, int], JournaledRun] = {}
    for group, program in _side_by_side(planned, runs):
        if ask():
            _, seed = group[0]
            raise Interrupted(f"before seed {seed}")
        journaled_runs = [_journaled(planned[index], run_files, seed) for index, seed in group]
        with allocations(planned[0].experiment.scenario, planned[0].experiment.memory_bytes):
            running = _resumed(journaled_runs, listen)
            by_id = {id(journaled.run): journaled for journaled in running}
            is_commit_due = functools.partial(_is_commit_due, running, ask)
            active_runs = [journaled.run for journaled in running]
            sample_bytes = _resident_bytes(journaled_runs)
            for event in events(active_runs, program, is_commit_due, calls, sample_bytes):
                if isinstance(event, CommitPoint):
                    _commit([by_id[id(run)] for run in event.runs], event.round, ask)
                else:
                    run, row = event
                    _add_row(by_id[id(run)], row, listen)
        for run, journaled in zip(group, journaled_runs, strict=True):
            journaled.run.release()
            ended[run] = journaled
        forget_programs()

    results = [Result(entry.experiment, entry.who) for entry in planned]
    for index, seed in runs:
        journaled = ended[index, seed]
        results[index].add_run(seed, journaled.journal, journaled.run, planned[index].numerics)
    return results


def _in_order(planned: Sequence[PlannedExperiment]) -> list[tuple[int, int]]:
    """The runs of experiments, as (index of the experiment, seed).

    Runs of one seed are neighbours: they have their batches in common.
    """
    by_seed = []
    for index, entry in enumerate(planned):
        for position, seed in enumerate(entry.seeds):
            by_seed.append((position, index, seed))
    return [(index, seed) for _, index, seed in sorted(by_seed)]


def _side_by_side(
    planned: Sequence[PlannedExperiment], runs: Sequence[tuple[int, int]]
) -> Iterator[tuple[Sequence[tuple[int, int]], Program]]:
    """Yield the runs that train side by side, and the program that trains them.

    No run has its batches padded for another one, which would change its bits.
    """
    by_width: dict[int, list[tuple[int, int]]] = {}
    for index, seed in runs:
        batch_rows = planned[index].experiment.plans[seed].batch_rows
        by_width.setdefault(batch_rows, []).append((index, seed))

    for alike in by_width.values():
        starts = [without_frozen(planned[index].experiment.shared[seed]) for index, seed in alike]
        model_bytes = tree.nbytes(starts[0][0])
        programs = [planned[index].experiment.program for index, _ in alike]
        plans = [planned[index].experiment.plans[seed] for index, seed in alike]
        frozen = [leaves for _, leaves in starts]
        groups, common_program = group_runs(programs, plans, model_bytes, frozen)
        are_apart = len(groups) == len(alike)
        for first, last in groups:
            yield alike[first:last], programs[first] if are_apart else common_program


def _journaled(planned: PlannedExperiment, run_files: RunFiles | None, seed: int) -> JournaledRun:
    """A run with its journal, which has a folder where there is a run directory."""
    folder = None
    if run_files is not None:
        folder = run_files.folder(label_of(planned.who), seed)
        files.make_folder(folder)
    checkpoint = planned.experiment.scenario.spec.checkpoint
    pace = Pace(checkpoint.seconds, checkpoint.rounds, frozenset(checkpoint.keep))
    journal = Journal(folder, identity(planned.record, seed), pace)
    run = planned.experiment.run(seed, folder)
    updates = None
    if run_files is not None and checkpoint.updates:
        updates = UpdateFiles(run_files.updates(label_of(planned.who), seed))
        files.make_folder(updates.folder)
        run.keep_updates = updates.write
    who = {**planned.who, "seed": seed}
    return JournaledRun(
        run=run, journal=journal, who=who, experiment=planned.experiment, updates=updates
    )


def commit_beginning(
    planned: PlannedExperiment, run_files: RunFiles, seed: int, beginning: Beginning
) -> None:
    """Commit the state that the run of a seed begins with, and the rows before it."""
    run, journal, who, *_ = _journaled(planned, run_files, seed)
    run.restore(beginning.snapshot)
    run.reopen()
    for table, rows in beginning.rows.items():
        journal.add(table, *({**row, **who} for row in rows))
    journal.mark()
    journal.commit(run.snapshot(), run.store.files())
    run.release()


def _resumed(journaled_runs: Sequence[JournaledRun], listen: Listener | None) -> list[JournaledRun]:
    """Resume runs from their last commits, and return those that have not ended."""
    for journaled in journaled_runs:
        _resume(journaled.run, journaled.journal)
        if journaled.updates is not None:
            journaled.updates.remove_after(journaled.run.round)
        if journaled.run.end_if_complete():
            _commit_end(journaled)
        if listen is not None:
            listen(journaled, None)
    return [journaled for journaled in journaled_runs if journaled.run.status == "running"]


def _is_commit_due(running: Sequence[JournaledRun], ask: Callable[[], bool], round: int) -> bool:
    """Whether runs commit after a round, or before they stop."""
    return ask() or any(journaled.journal.due(round) for journaled in running)


def _commit(committed: Sequence[JournaledRun], round: int, ask: Callable[[], bool]) -> None:
    """Commit runs after a round.

    Raises:
      Interrupted: when `ask` said so.
    """
    for journaled in committed:
        journaled.journal.commit(journaled.run.snapshot(), journaled.run.store.files())
    if ask():
        raise Interrupted(f"after round {round} of {_in_words(committed)}")


def _resident_bytes(journaled_runs: Sequence[JournaledRun]) -> float:
    """Bytes of training samples that the device may hold."""
    if is_multiprocess():  # each process loads what its lanes read
        return 0.0
    specs = [journaled.experiment.scenario.spec for journaled in journaled_runs]
    return min(spec.data.resident_mb for spec in specs) * 1e6


def _in_words(journaled_runs: Sequence[JournaledRun]) -> str:
    """Which runs were interrupted."""
    if len(journaled_runs) > 1:
        return f"{len(journaled_runs)} runs"
    return f"seed {journaled_runs[0].who['seed']}"


def _resume(run: Run, journal: Journal) -> None:
    """Resume from the last commit, where there is one."""
    last = journal.resume(run.rounds)
    if last is None and "fork" in journal.identity:
        reason = "the fork was interrupted before it began; fork again, with --resume"
        raise CheckpointError(f"{journal.folder}: {reason}")
    if last is not None:
        restore(run, last, journal.folder)
    if is_multiprocess():
        # The first process has read the commit, and the others take its state over.
        state = from_first_process(run.snapshot(portable=True) if last is not None else None)
        if state is not None and last is None:
            run.restore(state)


def restore(run: Run, state: Snapshot, folder: Path | None) -> None:
    """Resume a run from the state in a commit, which is intact.

    Raises:
      CorruptError: where no run has written it.
    """
    try:
        run.restore(state)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        reason = f"the commit of round {state.values['round']} is damaged: {error!r}"
        raise CorruptError(f"{folder}: {reason}") from None


def _add_row(journaled: JournaledRun, row: Row, listen: Listener | None) -> None:
    """Add an evaluated round to the journal; after the last one, end the run."""
    journal = journaled.journal
    # A run with more rounds would have this row only if it falls on a regular evaluation.
    if row.extra:
        journal.mark()
    journal.add("rounds", {**journaled.who, **row.values})
    journal.add("timing", {**journaled.who, **row.timing})
    if not row.extra:
        journal.mark()
    if row.status != "running":
        _commit_end(journaled)
    if listen is not None:
        listen(journaled, row)


def _commit_end(journaled: JournaledRun) -> None:
    """Add the tables of a run that has ended, and commit for the last time."""
    run, journal, who, experiment, _ = journaled
    add_final_tables(journal, run, who, experiment.scenario.spec)
    journal.commit(run.snapshot(), run.store.files())
