"""Runs of one experiment, seed by seed, each into a journal from which it can go on."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedsim.engine.checkpoint import CorruptError
from fedsim.engine.processes import joined, shared
from fedsim.engine.run import Rest, Row, Run
from fedsim.report import directory, files
from fedsim.report.journal import Journal, Pace
from fedsim.report.record import identity
from fedsim.report.result import Result, close, label_of, slug
from fedsim.scenario import Experiment

Watch = Callable[[Experiment, int, Row], None]


class Interrupted(BaseException):
    """A run that was asked to end early, after its commit; `--resume` goes on (exit code 130 or 143)."""


def played(
    experiment: Experiment,
    record: dict[str, Any],
    path: Path | None,
    calls: int | None,
    watch: Watch | None,
    ask: Callable[[], bool],
    within: Callable[[], Any],
    who: dict[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
) -> Result:
    """Every seed to its end; what is asked of the result later is computed `within` the same numerics.

    Args:
      experiment: what is run.
      record: what `run.json` says of it.
      path: of the run directory; None: nothing is written.
      calls: device calls per block.
      watch: is shown every row.
      ask: whether to come to rest.
      within: the context of the experiment's numerics.
      who: first columns of every row, `method` among them; left out: the experiment's method.
      seeds: of the experiment's; left out: all of them.
    """
    who = who or {"method": experiment.method}
    result = Result(experiment, who)

    def scoped(compute: Callable) -> Callable:
        def later():
            with within():
                return compute()

        return functools.cache(later)

    for seed in experiment.plans if seeds is None else seeds:
        if ask():
            raise Interrupted(f"before seed {seed}")
        journal, folder = journal_of(experiment, record, path, who, seed)
        one = experiment.run(seed, calls, folder)
        play(one, journal, {**who, "seed": seed}, experiment, watch, ask)
        one.release()
        result.keep(seed, journal, one, scoped)
    return result


def journal_of(
    experiment: Experiment, record: dict[str, Any], path: Path | None, who: dict[str, Any], seed: int
) -> tuple[Journal, Path | None]:
    """The journal of a seed, and the folder for its files."""
    pace = experiment.scenario.spec.checkpoint
    folder = None
    if path:
        folder = folder_of(path, label_of(who), seed)
        files.make_folder(folder)
    return Journal(folder, identity(record, seed), Pace(pace.seconds, pace.rounds)), folder


def folder_of(path: Path, label: str, seed: int) -> Path:
    """Where a run directory keeps the log and the commits of a seed; `label` of the method, and variant if there is one."""
    return path / directory.COMMITS / f"{slug(label)}.{seed}"


def play(
    run: Run,
    journal: Journal,
    who: dict[str, Any],
    experiment: Experiment,
    watch: Watch | None,
    ask: Callable[[], bool],
) -> None:
    """A run from its last commit to its end, or to the rest that was asked for."""
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
    if run.status != "running":
        return
    for event in run.events(lambda r: journal.due(r) or ask()):
        if isinstance(event, Rest):
            journal.commit(run.snapshot(), run.store.files())
            if ask():
                raise Interrupted(f"after round {run.round} of seed {who['seed']}")
            continue
        if event.extra:
            journal.mark()
        journal.add("rounds", {**who, **event.values})
        journal.add("timing", {**who, **event.timing})
        if not event.extra:
            journal.mark()
        if watch:
            watch(experiment, who["seed"], event)
    spec = experiment.scenario.spec
    close(journal, run, who, spec.evaluate, several=len(spec.seeds) > 1)
    journal.commit(run.snapshot(), run.store.files())
