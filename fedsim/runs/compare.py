"""`fedsim.compare`: every cell of a grid under the same seeds; no finished run is repeated."""

import contextlib
import functools
import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble.experiment import numerics
from fedsim.assemble.sample_notes import data_warnings
from fedsim.errors import CheckpointError, ScenarioError
from fedsim.runs import derive, directory
from fedsim.runs.comparison import Comparison, Outcome
from fedsim.runs.differences import demand_same
from fedsim.runs.directory import RunDirectory, open_run_directory
from fedsim.runs.displays import progress_of
from fedsim.runs.environment import memory
from fedsim.runs.execute import Listener, Watch, listener
from fedsim.runs.executor import (
    Carrier,
    Runs,
    all_runs,
    execute_elsewhere,
    programs_of,
    unfinished_and_ended,
)
from fedsim.runs.filenames import RunFiles, label_of, names_of
from fedsim.runs.given import Given
from fedsim.runs.holdout import with_holdout
from fedsim.runs.logs import log_opener
from fedsim.runs.record import record_of_comparison
from fedsim.runs.refusals import CompareOverrides, read_checked, refuse
from fedsim.runs.resolve import demand_own_samples, resolve_design
from fedsim.runs.run import Options, argument_edits, texts_of
from fedsim.runs.rungs import has_rungs, searched
from fedsim.runs.sweep import Partitioner, Sweep, build_cell, cached_partition
from fedsim.runs.terms import terms_of
from fedsim.runs.unfinished import demand_reachable, is_comparison, runs_of
from fedsim.runs.workers import Workers
from fedsim.scenario.recorded_paths import resolved_from
from fedsim.study.grid import Design, design_of


class Session(NamedTuple):
    """A comparison in progress.

    Attributes:
      on: the address or client of a cluster; None: no cluster.
      run_files: the files of its runs; None: none are written.
      threads: the thread count recorded by the comparison that is resumed; None for a new one.
      partition: makes the federations of the cells, each partition only once.
    """

    options: Options
    jobs: int
    on: Any
    design: Design
    run_files: RunFiles | None
    record: dict[str, Any]
    devices: list
    threads: int | None
    partition: Partitioner


def compare(
    scenario: Any,
    methods: str | Sequence[Any] | None = None,
    *,
    vary: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    tune: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    jobs: int = 1,
    on: Any = None,
    rounds: int | None = None,
    seeds: int | Sequence[int] | None = None,
    baseline: str | None = None,
    baselines: bool = False,
    metric: str | None = None,
    score: str | None = None,
    edits: Sequence[str] = (),
    data_roots: Sequence[str | os.PathLike[str]] = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
    ask: Callable[[], bool] = lambda: False,
    log_to: str | Sequence[str] = (),
    pictures: bool = True,
) -> Comparison:
    """Run several methods under identical conditions and several seeds, and test the differences.

    Under a seed every method has the same partition, start model, cohorts, batches and failures, so
    differences are paired; the verdict names the cohorts that depend on what clients report, which
    are not. A configuration that fails is reported with its reason, and the others continue.

    Args:
      scenario: the path of a YAML file, a dictionary of the same shape, or a `Scenario`.
      methods: labels such as `["fedavg", "fedprox(mu=0.1)"]`, one text of them, or mappings
        `{"method": ..., "label": ..., "set": {path: value}, "tune": {path: [values]}}`; left out:
        the scenario's `compare.methods`. In `"fedprox(mu=0.1|1)"` and in a method's own `tune`, one
        of the values is chosen, as for `tune`.
      vary: axes of a grid, `{path: [values]}` or `PATH=V1,V2` texts; left out: the scenario's
        `compare.vary`.
      tune: settings that every method is tried with, in the form of `vary`; the one with the best
        final validation metric (mean over seeds, ties to the first) is reported, on test data. Left
        out: the scenario's `compare.tune`.
      data: instead of the scenario's data set, as `fedsim.run` takes it; so are the next three.
      model: instead of the scenario's, of every method.
      params: start parameters of every method.
      loss: `f(outputs, y) -> loss per row`.
      jobs: processes that execute runs side by side, which changes no bit. A script that asks for
        more than one has to run under `if __name__ == "__main__"`, since they import it.
      on: `dask://HOST:PORT` of a scheduler (`tls://HOST:PORT` with the certificates of dask's own
        configuration), or a `distributed.Client`, whose workers execute the runs, which changes no
        bit either. Both ends unpickle what the other sends.
      rounds: instead of the scenario's.
      seeds: instead of the scenario's: a number n (the seeds 0 to n − 1) or a sequence.
      baseline: the method that the others are compared with; left out: `fedavg` if it is compared,
        else the first federated one.
      baselines: whether `centralised` and `local_only` are compared as well, which are not
        federated methods.
      metric: the column of `rounds.csv` that decides, instead of the scenario's `evaluate.metric`.
      score: `final` (the default), `best`, or `mean_last_k` of the metric; or `own` (the default if
        the baseline is `local_only`): on the clients' own test samples, each with the final model
        that it would use, its own or else the shared one.
      edits: `PATH=VALUE` texts, as `--set` takes them.
      data_roots: folders in which a scenario file may name data files, besides its own and the
        working directory.
      out: write a run directory here, with commits from which runs can resume.
      force: replace an earlier comparison there.
      resume: continue the comparison there; runs that have ended are only read. Methods, variations
        and seeds may be added.
      device: compute on these instead of all local devices: `cpu`, `gpu`, `gpu:0,1`.
      watch: called as `watch(experiment, seed, row)` after every evaluated round.
      progress: whether a bar with the time left is shown: True (in a log a line every half minute),
        False, or None: only at a terminal (on stderr) and in a notebook.
      ask: called after every round; where it returns True, the comparison commits and stops.
      log_to: trackers that get every row as well: `tensorboard`, `wandb`, `mlflow`, several as a
        sequence or separated by commas; they need `out`, where their files are written. With
        `jobs` or `on`, and in a search with rungs, they get the rows when the runs have ended.
      pictures: draw `figures/` into the run directory.

    Returns:
      Frames over the whole grid, the table of paired differences, and a verdict in words.

    Raises:
      ScenarioError: for a scenario, method or axis that is not valid.
      DirectoryError: for an output directory that is taken, or cannot be written.
      LockedError: for one in which another process is writing.
      CheckpointError: for runs that cannot resume.
      ProcessError: when no workers answer, or the environment of some could change results.
      DeviceError: for devices that do not exist.
      DataError: for samples that cannot be learned from.
      LostError: when workers were lost and did not come back; what they finished is stored, and
        `resume` continues.
      Interrupted: when `ask` said so.
    """
    given = Given(data, model, params, loss)
    if given.names and (jobs > 1 or on):
        text = f"{given.names[0]}= is here alone, and other processes read the scenario"
        raise ValueError(f"{text}; leave {'on' if on else 'jobs'}= out")
    options = Options(
        started=time.monotonic(),
        given=given,
        resume=resume,
        device=device,
        watch=watch,
        ask=ask,
        pictures=pictures,
        open_log=log_opener(log_to, out),
    )
    overrides = CompareOverrides(methods, vary, tune, baseline, score, baselines)
    edits = texts_of(edits) + argument_edits(rounds, seeds)
    if metric is not None:
        edits += (f"evaluate.metric={metric}",)
    design = _read_design(scenario, edits, data_roots, device, overrides, given)
    with (
        open_run_directory(out, force, resume) as run_directory,
        progress_of(design.scenario, progress) as count,
    ):
        return _run_design(design, run_directory, options._replace(progress=count), jobs, on)


def _read_design(
    scenario: Any,
    edits: tuple[str, ...],
    data_roots: Sequence[str | os.PathLike[str]],
    device: str | None,
    overrides: CompareOverrides,
    given: Given,
) -> Design:
    """Read the grid, or refuse it with everything that is wrong with its cells."""
    checked = read_checked(scenario, edits, data_roots, device, overrides, given)
    checked, overrides = with_holdout(checked, overrides, given)
    try:
        return design_of(checked, *overrides)
    except ScenarioError:
        refuse(checked, device, overrides, given)
        raise  # `refuse` found no further problems


def _run_design(
    design: Design, run_directory: RunDirectory | None, options: Options, jobs: int, on: Any
) -> Comparison:
    """Run every cell of a grid, and write the results where there is a run directory."""
    labels = [label_of(cell.key_columns) for cell in design.cells]
    threads = None if run_directory is None else run_directory.threads
    partition = cached_partition()
    with contextlib.ExitStack() as stack:
        run_files = None
        log = None
        if run_directory is not None:
            run_files = run_directory.run_files(labels)
            if options.open_log is not None:
                log = options.open_log(run_files, options.resume)
                stack.enter_context(contextlib.closing(log))
        elif jobs > 1 or on or has_rungs(design):
            # Other processes pass their results on as files, and a rung resumes from them.
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            run_files = RunFiles(Path(folder), names_of(labels))

        with numerics(design.scenario, threads, options.device) as devices:
            demand_own_samples(design, partition, options.given.data)
            design = resolve_design(design, partition, options.given.data)
            remarks = _remarks_on_samples(design, partition, options.given)
            for remark in remarks:
                warnings.warn(remark, stacklevel=3)  # at the line that called `compare`
            record = record_of_comparison(design, devices, options.given.names)
            session = Session(
                options=options,
                jobs=jobs,
                on=on,
                design=design,
                run_files=run_files,
                record=record | {"remarks": remarks},
                devices=devices,
                threads=threads,
                partition=partition,
            )
            local = _sweep(session, listener(options.watch, options.progress, log))
            carrier = _carrier(session, stack)

            # Only now: a cluster that cannot be reached leaves the directory untouched.
            if run_directory is not None:
                _prepare(run_directory, session)
            with derive.tables_if_interrupted(run_directory, options.started, options.pictures):
                outcomes = _execute(session, local, carrier)

            resolved = design.scenario.resolved()
            comparison = Comparison(outcomes, resolved, design.baseline, design.score)
            if run_directory is not None:
                assert run_files is not None  # a run directory has some
                record = session.record | {
                    "verdict": comparison.verdict,
                    "memory": memory(devices),
                }
                derive.complete(
                    run_directory, run_files, comparison, record, options.started, options.pictures
                )
    return comparison


def _remarks_on_samples(design: Design, partition: Partitioner, given: Given) -> list[str]:
    """What is odd about the samples of the first cell: a line for each."""
    scenario = design.cells[0].scenario
    with contextlib.suppress(Exception):  # a cell without samples fails later
        federations = partition(scenario, given.data, np.dtype(scenario.spec.numerics.dtype))
        return data_warnings(scenario, next(iter(federations.values())).unpooled)
    return []


# ---------------------------------------------------------------------------- the run directory


def _prepare(run_directory: RunDirectory, session: Session) -> None:
    """Check that the comparison in the directory can be resumed, or prepare it for a new one."""
    assert session.run_files is not None  # a run directory has one
    session.record["names"] = session.run_files.names
    run_directory.stamp(session.record)

    path = run_directory.path
    before = run_directory.before
    if before is not None:
        if not is_comparison(before):
            raise CheckpointError(
                f"{path}: holds a single run, not a comparison; choose another --out"
            )
        _demand_resumable(path, before, session)
    derive.delete_derived(path, before)
    scenario = resolved_from(session.design.scenario, path)
    directory.start(path, session.record, scenario, replace=before is None)


def _demand_resumable(path: Path, before: dict[str, Any], session: Session) -> None:
    """Check that the configurations that were started can be resumed.

    Raises:
      CheckpointError: if another version of fedsim began it, or a configuration is to end before
        its last commit.
    """
    started = before.get("planned") or {}
    if started:  # what else decides their bits is compared as each of them resumes
        demand_same(_version(before), _version(session.record), str(path))

    runs = runs_of(path, session.record)
    for cell in session.design.cells:
        rounds = started.get(label_of(cell.key_columns), {}).get("rounds", 0)
        if rounds > cell.scenario.spec.rounds:
            runs_of_cell = [run for run in runs if run.who == cell.key_columns]
            demand_reachable(path, cell.scenario, runs_of_cell)


def _version(record: dict[str, Any]) -> dict[str, Any]:
    """The version of fedsim that a record is of, by the name of its field."""
    return {"environment": {"fedsim": record["environment"].get("fedsim")}}


# ------------------------------------------------------------------------------- the execution


def _sweep(session: Session, listen: Listener) -> Sweep:
    threads = session.threads
    device = session.options.device
    return Sweep(
        devices=session.devices,
        numerics=functools.partial(numerics, threads=threads, device=device),
        run_files=session.run_files,
        listen=listen,
        build=functools.partial(
            build_cell, partition=session.partition, given=session.options.given
        ),
    )


def _carrier(session: Session, stack: contextlib.ExitStack) -> Carrier | None:
    """What brings runs to a cluster or to several processes; None where this one is alone."""
    options = session.options
    if session.run_files is None:
        return None
    if session.on:
        return stack.enter_context(_cluster(session, session.run_files))
    if session.jobs > 1:
        return Workers(
            document=session.design.scenario.document,
            run_files=session.run_files,
            jobs=session.jobs,
            device=options.device,
            threads=session.threads,
            partition=session.partition,
            ask=options.ask,
        )
    return None


@contextlib.contextmanager
def _cluster(session: Session, run_files: RunFiles) -> Iterator[Carrier]:
    from fedsim.runs.cluster import Cluster, connected

    with connected(session.on) as (client, name):
        # Only when the scheduler answers: the terms have hashes of all data files.
        terms = terms_of(
            cells=session.design.cells,
            document=session.design.scenario.document,
            record=session.record,
            device=session.options.device,
            devices=session.devices,
        )
        yield Cluster(client, name, terms, run_files)


def _execute(session: Session, local: Sweep, carrier: Carrier | None) -> list[Outcome]:
    """Execute the runs that have not ended, outside this process if there is a carrier."""
    cells = session.design.cells
    if session.run_files is not None and has_rungs(session.design):
        play = functools.partial(_play_to_rung, session)
        cells = searched(session.design, session.run_files, play)
        for cell in cells:
            session.record["planned"][label_of(cell.key_columns)]["rounds"] = cell.rounds

    runs = all_runs(cells)
    _execute_elsewhere(session, carrier, runs)
    # Runs that were executed elsewhere are only read from their journals here.
    return local.execute(runs, session.options.ask)


def _play_to_rung(session: Session, runs: Runs) -> None:
    """Execute the runs of one rung of a search; trackers get their rows when it is over."""
    options = session.options
    with contextlib.ExitStack() as stack:
        carrier = _carrier(session, stack)
        _execute_elsewhere(session, carrier, runs)
    if carrier is None:
        _sweep(session, listener(options.watch, options.progress)).execute(runs, options.ask)


def _execute_elsewhere(session: Session, carrier: Carrier | None, runs: Runs) -> None:
    """Execute the runs that have not ended outside this process, if there is a carrier."""
    ask = session.options.ask
    progress = session.options.progress
    if progress is not None:
        cells = [cell for cell, _ in runs]
        progress.comparison_started(cells, len(set(map(programs_of, cells))))
    if carrier is not None and session.run_files is not None:
        unfinished, ended = unfinished_and_ended(runs, session.run_files)
        with contextlib.closing(execute_elsewhere(carrier, unfinished, ask)) as executing:
            for keys in itertools.chain([ended], executing):
                if progress is not None:
                    progress.runs_ended(keys)
