"""`fedsim.run`: run a scenario, from its last commit where there is one, and return frames."""

import contextlib
import functools
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.forecast import remarks, updates_bytes
from fedsim.disk import files
from fedsim.engine.processes import is_first_process
from fedsim.runs import derive, directory
from fedsim.runs.commits import has_commits
from fedsim.runs.differences import demand_same
from fedsim.runs.directory import RunDirectory, open_run_directory
from fedsim.runs.displays import progress_of
from fedsim.runs.environment import memory
from fedsim.runs.execute import (
    Beginning,
    PlannedExperiment,
    Watch,
    commit_beginning,
    execute,
    listener,
)
from fedsim.runs.filenames import RunFiles
from fedsim.runs.given import Given
from fedsim.runs.logs import LogOpener, log_opener
from fedsim.runs.progress import Count
from fedsim.runs.record import identity, record_of
from fedsim.runs.refusals import read_checked
from fedsim.runs.result import Numerics, Result
from fedsim.runs.unfinished import demand_reachable, runs_of
from fedsim.scenario import Scenario
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.scenario.recorded_paths import resolved_from

UNRECORDED = {"before"}  # arguments of `build` that change bits, and that a record does not have


class Options(NamedTuple):
    """How a scenario or a comparison is run and what is written; see `run`.

    Attributes:
      started: when the run started, by `time.monotonic`.
      progress: what shows how far the run is; None: nothing is shown.
      open_log: opens what gets the rows as well; None: nothing does.
      fork: of a fork, what its record says of the original.
      beginning: of a fork, (experiment, its record, seed) -> what the run of a seed begins with.
      threads: of a new run; None: as many as there are.
    """

    started: float
    given: Given
    build_options: Mapping[str, Any] = {}
    calls: int | None = None
    force: bool = False
    resume: bool = False
    device: str | None = None
    watch: Watch | None = None
    progress: Count | None = None
    ask: Callable[[], bool] = lambda: False
    open_log: LogOpener | None = None
    pictures: bool = False
    fork: dict[str, Any] | None = None
    beginning: Callable[[Experiment, dict[str, Any], int], Beginning] | None = None
    threads: int | None = None


def run(
    scenario: Any,
    *,
    rounds: int | None = None,
    seeds: int | Sequence[int] | None = None,
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    method: Any = None,
    edits: str | Sequence[str] = (),
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
    **build_options: Any,
) -> Result:
    """Run a scenario, every seed and every round, and return frames.

    Args:
      scenario: the path of a YAML file, a dictionary of the same shape, or a `Scenario`.
      rounds: instead of the scenario's.
      seeds: instead of the scenario's: a number n (the seeds 0 to n − 1) or a sequence.
      data: instead of the scenario's data set: `fedsim.Arrays`, `(x, y)`, or a pandas DataFrame,
        which is read by the keys of the data section (`target`, `client`, `missing`,
        `standardize`, `dates`, `task`, `drop`). Without `data.test` all of it is trained on.
      model: a `Model`, a pair `(init, apply)`, or an object with both, instead of the scenario's.
      params: start parameters, a PyTree that fits the model; for methods with several models
        (clusters, `fedem`), a list with those of each.
      loss: `f(outputs, y) -> loss per row`.
      method: a method that replaces what it owns of the scenario: `"fedprox(mu=0.1)"`, or a
        mapping.
      edits: one or several `PATH=VALUE` texts, as `--set` takes them.
      data_roots: folders in which a scenario file may name data files, besides its own and the
        working directory.
      out: write a run directory here, with commits from which the run can resume.
      force: replace an earlier run there.
      resume: continue the run there from its last commit; a finished one is only read.
      device: compute on these instead of all local devices: `cpu`, `gpu`, `gpu:0,1`.
      watch: called as `watch(experiment, seed, row)` after every evaluated round.
      progress: whether a bar with the time left is shown: True (in a log a line every half minute),
        False, or None: only at a terminal (on stderr) and in a notebook.
      ask: called after every round; where it returns True, the run commits and stops.
      log_to: trackers that get every row as well: `tensorboard`, `wandb`, `mlflow`, several as a
        sequence or separated by commas; they need `out`, where their files are written.
      pictures: draw `figures/` and write `tables/` into the run directory, which takes a second or
        two.
      build_options: `calls` (device calls per block) and `pack` (which lane a client is trained
        in), which change no bit.

    Returns:
      Frames as in the files of a run directory, with a row per evaluated round, client or seed;
      final models and states.

    Raises:
      ScenarioError: for a scenario that cannot be run as written.
      DataError: for samples that cannot be learned from.
      DirectoryError: for an output directory that is taken, or cannot be written.
      LockedError: for one in which another process is writing.
      CheckpointError: for a run that cannot resume: it is damaged, or of another scenario, machine
        or version.
      Interrupted: when `ask` said so.

    >>> import fedsim
    >>> data = {"kind": "gaussian_blobs", "samples": 300, "clients": 5}
    >>> result = fedsim.run({"name": "tiny", "data": data}, rounds=2, seeds=2)
    >>> result.rounds[["seed", "round", "bytes_up"]].iloc[-1].tolist()
    [1, 2, 8400]
    """
    _require_build_options(build_options)
    options = Options(
        started=time.monotonic(),
        given=Given(data, model, params, loss),
        calls=build_options.pop("calls", None),
        build_options=build_options,
        force=force,
        resume=resume,
        device=device,
        watch=watch,
        ask=ask,
        pictures=pictures,
        open_log=log_opener(log_to, out),
    )
    all_edits = (*texts_of(edits), *argument_edits(rounds, seeds))
    checked = read_checked(
        scenario, all_edits, data_roots, device, given=options.given, method=method
    )

    return run_from(checked, out, options, progress)


def run_from(
    scenario: Scenario, out: str | os.PathLike[str] | None, options: Options, progress: bool | None
) -> Result:
    """Run a scenario that has been read, and write the result where there is a run directory."""
    directory_path = out if is_first_process() else None  # of several processes the first writes
    with contextlib.ExitStack() as stack:
        opened = open_run_directory(directory_path, options.force, options.resume)
        run_directory = stack.enter_context(opened)
        count = stack.enter_context(progress_of(scenario, progress))
        options = options._replace(progress=count)
        threads = options.threads
        if run_directory is not None and run_directory.before is not None:
            threads = run_directory.threads
        within = functools.partial(numerics, scenario, threads, options.device)
        with within() as devices:
            planned = _planned(scenario, within, devices, options)
            if count is not None:
                count.compiling_started(programs=1)
            run_files = None
            log = None
            if run_directory is not None:
                run_files = _begin(run_directory, planned, options)
                if options.open_log is not None:
                    log = options.open_log(run_files, options.resume)
                    stack.enter_context(contextlib.closing(log))
            listen = listener(options.watch, options.progress, log)
            with derive.tables_if_interrupted(run_directory, options.started, options.pictures):
                (result,) = execute([planned], run_files, options.calls, listen, options.ask)

        # The directory of a run that had ended before stays as it is.
        record = planned.record
        if run_directory is not None and not _is_complete(run_directory, record):
            assert run_files is not None  # a run directory has one
            record["memory"] = memory(devices)
            if result.notes:
                record["notes"] = {str(seed): note for seed, note in result.notes.items()}
            derive.complete(
                run_directory, run_files, result, record, options.started, options.pictures
            )
    return result


def _planned(
    scenario: Scenario, within: Numerics, devices: list, options: Options
) -> PlannedExperiment:
    """Build the experiment of a scenario, on these devices."""
    given = options.given
    inputs = {**given._asdict(), **options.build_options}
    experiment = build(scenario, devices=devices, **inputs)
    record = record_of(experiment, devices, given.names)
    record["remarks"] = remarks(experiment)
    for remark in record["remarks"]:
        warnings.warn(remark, stacklevel=4)  # at the line that called `run`
    return PlannedExperiment(
        experiment=experiment,
        record=record,
        who={"method": experiment.method},
        numerics=within,
        seeds=list(experiment.plans),
    )


def _begin(run_directory: RunDirectory, planned: PlannedExperiment, options: Options) -> RunFiles:
    """Prepare the directory for a run, or check that the run there can be resumed.

    Returns:
      The files of the run, with the states that the runs of a fork begin with.
    """
    experiment = planned.experiment
    record = planned.record
    run_files = run_directory.run_files([experiment.method])
    record["names"] = run_files.names
    run_directory.add_fork(record, options.fork)
    begun = run_files if run_directory.before is not None else None
    beginnings = _beginnings(experiment, record, options, begun)
    run_directory.stamp(record)
    _prepare(run_directory, record, experiment, options.force)
    for seed, beginning in beginnings.items():
        commit_beginning(planned, run_files, seed, beginning)
    return run_files


def _require_build_options(names: Iterable[str]) -> None:
    """Refuse arguments that `run` does not have."""
    known = inspect.signature(build).parameters.keys() - UNRECORDED
    for name in names:
        if name in known or name == "calls":
            continue
        remedy = "a key of the scenario is changed by edits=['KEY=VALUE']"
        raise TypeError(f"fedsim.run has no {name}=; {remedy}")


def texts_of(edits: str | Sequence[str]) -> tuple[str, ...]:
    """Edits as a tuple."""
    if isinstance(edits, Mapping):
        texts = [f"{path}={value}" for path, value in edits.items()]
        raise TypeError(f"edits are texts; write edits={texts}")
    return (edits,) if isinstance(edits, str) else tuple(edits)


def argument_edits(rounds: int | None, seeds: int | Sequence[int] | None) -> tuple[str, ...]:
    """Rounds and seeds as `--set` takes them."""
    edits = () if rounds is None else (f"rounds={rounds}",)
    if seeds is None:
        return edits
    if not isinstance(seeds, int):
        seeds = [int(seed) for seed in seeds]
    return (*edits, f"seeds={seeds}")


def _beginnings(
    experiment: Experiment, record: dict[str, Any], options: Options, begun: RunFiles | None
) -> dict[int, Beginning]:
    """What the runs of a fork begin with, by seed; nothing where no fork starts.

    Args:
      begun: files of a fork that resumes, whose seeds may have begun; None: none has.
    """
    if options.beginning is None:
        return {}
    beginnings = {}
    for seed in experiment.plans:
        has_begun = begun is not None and has_commits(begun.folder(experiment.method, seed))
        if not has_begun:
            beginnings[seed] = options.beginning(experiment, record, seed)
    return beginnings


def _prepare(
    run_directory: RunDirectory, record: dict[str, Any], experiment: Experiment, force: bool
) -> None:
    """Check that the run in the directory can be resumed, or prepare it for a new one."""
    path = run_directory.path
    before = run_directory.before
    if before is not None:
        demand_same(identity(before), identity(record), str(path))
        if record["scenario"]["rounds"] < before["scenario"]["rounds"]:
            demand_reachable(path, experiment.scenario, runs_of(path, before))
        if _is_complete(run_directory, record):
            return
    # Two commits, and those that are kept, are on the disk while another one is written.
    model_bytes = sum(tree.nbytes(shared) for shared in experiment.shared.values())
    kept = len(set(experiment.scenario.spec.checkpoint.keep))
    files.require_space(path, (3 + kept) * model_bytes + updates_bytes(experiment))
    derive.delete_derived(path, before)
    directory.start(path, record, resolved_from(experiment.scenario, path), replace=force)


def _is_complete(run_directory: RunDirectory, record: dict[str, Any]) -> bool:
    """Whether the run in the directory has all rounds already, with all its files.

    Args:
      record: the content of `run.json` as it would be now.
    """
    before = run_directory.before
    if before is None or before["status"] in ("running", "interrupted"):
        return False
    if without_hashed_paths(before["scenario"]) != without_hashed_paths(record["scenario"]):
        return False
    return all((run_directory.path / name).exists() for name in before["files"])
