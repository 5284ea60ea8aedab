"""`fedsim.run`: a scenario in, frames out, and whatever happens in between, nothing that was committed is lost."""

import contextlib
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.memory import data_warnings
from fedsim.disk import files
from fedsim.engine.processes import first
from fedsim.errors import Interrupted
from fedsim.runs import derive, directory, trackers
from fedsim.runs.changes import demand_unchanged
from fedsim.runs.environment import memory
from fedsim.runs.execute import Planned, Watch, execute, listener
from fedsim.runs.filenames import Layout, names_in, names_of
from fedsim.runs.journal import demand_same
from fedsim.runs.record import identity, record_of
from fedsim.runs.refusals import read_whole
from fedsim.runs.result import Result
from fedsim.runs.unfinished import demand_reachable, runs_of
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.scenario.places import resolved_from


class RunDirectory(NamedTuple):
    """A run directory that is held for writing.

    Attributes:
      path: of the directory.
      before: record of the run that goes on; None for a new one.
    """

    path: Path
    before: dict[str, Any] | None

    @property
    def threads(self) -> int | None:
        """Threads of the run that goes on."""
        return self.before["environment"].get("threads") if self.before else None

    def layout(self, labels: Iterable[str]) -> Layout:
        """Where runs have their files: those of these labels, and those of the run that goes on, which stay."""
        return Layout(self.path, names_of(labels, names_in(self.before) if self.before else {}))

    @property
    def seconds(self) -> float:
        """Wall seconds of the run that goes on, so far."""
        return (self.before or {}).get("wall_seconds", 0.0)

    def elapsed(self, started: float) -> float:
        """Wall seconds of the run, with those since `started`."""
        return self.seconds + time.monotonic() - started


def run(
    scenario: Any,
    *,
    seeds: int | Sequence[int] | None = None,
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    edits: str | Sequence[str] = (),
    data_roots: Sequence[str | os.PathLike[str]] = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    watch: Watch | None = None,
    ask: Callable[[], bool] = lambda: False,
    log_to: str | Sequence[str] = (),
    pictures: bool = True,
    **build_options: Any,
) -> Result:
    """Run a scenario: every seed, every round -> frames.

    Args:
      scenario: path of a YAML file, a dictionary of the same shape, or a `Scenario`.
      seeds: instead of the scenario's: a number (the first so many) or a sequence.
      data: in place of the scenario's data set: `fedsim.Arrays`, `(x, y)`, or a pandas DataFrame, which is read by the keys
        of the data section (`target`, `client`, `missing`, `standardize`, `drop`).
      model: a `Model`, a pair `(init, apply)`, or an object with both, in place of the scenario's.
      params: start parameters, a PyTree that fits the model.
      loss: `f(outputs, y) -> loss per row`.
      edits: a `PATH=VALUE` string or several, as `--set` takes them.
      data_roots: folders that a scenario file may name data files in, besides its own and the working directory.
      out: write a run directory here, with commits to go on from.
      force: replace an earlier run there.
      resume: go on with the run there, from its last commit; one that has ended is only read.
      device: compute on these instead of all local devices: `cpu`, `gpu`, `gpu:0,1`.
      watch: called as `watch(experiment, seed, row)` after every evaluated round.
      ask: asked after every round whether to come to rest, commit and end.
      log_to: trackers that get every row as well: `tensorboard`, `wandb`, `mlflow`, several with commas between or as a
        sequence; they need `out`, and their files lie there (`fedsim.runs.trackers` says how).
      pictures: draw `figures/` and write `tables/` into the run directory, which takes a second or two.
      build_options: `calls` (device calls per block) and `pack` (which lane a client lands on) change no bit.

    Returns:
      Frames as in the files of a run directory, with a row per evaluated round, client or seed; final models and states.

    Raises:
      ScenarioError: for a scenario that cannot run as written.
      DataError: for samples that cannot be learned from.
      DirectoryError: for an output directory that is taken, or cannot be written.
      LockedError: for one that another process is writing.
      CheckpointError: for a run that cannot go on: of another scenario, machine or version, or damaged.
      Interrupted: when `ask` said so.

    >>> import fedsim
    >>> tiny = {"name": "tiny", "rounds": 2, "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5}}
    >>> fedsim.run(tiny, seeds=2).rounds[["seed", "round", "bytes_up"]].iloc[-1].tolist()
    [1, 2, 8400]
    """
    started = time.monotonic()
    names = trackers.named(log_to, out)
    if isinstance(scenario, dict) and data is not None:
        written = scenario.get("data") or {}
        scenario = {
            **scenario,
            "data": written if isinstance(written, str) else {"kind": "supplied", **written},
        }
    edits = (edits,) if isinstance(edits, str) else tuple(edits)
    given = {"data": data, "model": model, "params": params, "loss": loss}
    checked = read_whole(scenario, (*edits, *seed_edits(seeds)), data_roots, device, given=given)
    calls = build_options.pop("calls", None)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(open_run_directory(out if first() else None, force, resume))
        within = functools.partial(numerics, checked, place.threads if place else None, device)
        with within() as devices:
            experiment = build(checked, devices=devices, **given, **build_options)
            for remark in data_warnings(checked, next(iter(experiment.plans.values())).federation):
                warnings.warn(remark, stacklevel=2)
            record = record_of(
                experiment, devices, [name for name, value in given.items() if value is not None]
            )
            layout = log = None
            if place:
                layout = place.layout([experiment.method])
                record["names"] = layout.names
                _open(place, record, experiment, force)
                log = stack.enter_context(contextlib.closing(trackers.Log(names, layout, resume)))
            who, all_seeds = {"method": experiment.method}, list(experiment.plans)
            planned = Planned(
                experiment=experiment, record=record, who=who, numerics=within, seeds=all_seeds
            )
            try:
                (result,) = execute([planned], layout, calls, listener(watch, log), ask)
            except Interrupted:
                if place:
                    derive.stopped(place.path, place.elapsed(started), pictures)
                raise
        if place and layout and not _complete(place, record):
            _finish(place, layout, {**record, "memory": memory(devices)}, result, pictures, started)
    return result


def seed_edits(seeds: int | Sequence[int] | None) -> tuple[str, ...]:
    """Seeds as `--set` takes them."""
    if seeds is None:
        return ()
    return (f"seeds={seeds if isinstance(seeds, int) else list(map(int, seeds))}",)


@contextlib.contextmanager
def open_run_directory(
    out: str | os.PathLike[str] | None, force: bool, resume: bool
) -> Iterator[RunDirectory | None]:
    """The run directory, held for the time of the run; None when nothing is to be written."""
    if out is None:
        yield None
        return
    path = Path(out)
    with directory.claimed(path, force, resume) as before, files.naming(path):
        yield RunDirectory(path, before)


def _open(place: RunDirectory, record: dict[str, Any], experiment: Experiment, force: bool) -> None:
    """Compare with the run that is to go on, or clear the place for a new one."""
    if place.before is not None:
        was, now = place.before["scenario"]["rounds"], record["scenario"]["rounds"]
        demand_unchanged(place.before["scenario"], place.before["environment"], str(place.path))
        demand_same(identity(place.before), identity(record), str(place.path))
        if now < was:
            demand_reachable(place.path, experiment.scenario, runs_of(place.path, place.before))
        if _complete(place, record):
            return
    state = sum(tree.nbytes(shared) for shared in experiment.shared.values())
    files.demand_room(place.path, 3 * state)
    derive.clear(place.path, place.before)
    directory.begin(place.path, record, resolved_from(experiment.scenario, place.path), anew=force)


def _finish(
    place: RunDirectory,
    layout: Layout,
    record: dict[str, Any],
    result: Result,
    pictures: bool,
    started: float,
) -> None:
    """Tables, models, pictures, and last the record with the hashes of all files: with it a directory is complete."""
    reasons = {str(seed): reason for seed, reason in result.reasons.items()}
    notes = {str(seed): note for seed, note in result.notes.items()}
    record = {
        **record,
        "status": result.status,
        "reasons": reasons,
        **({"notes": notes} if notes else {}),
    }
    result.write(layout)
    if pictures:
        derive.write(place.path, derive.derived_files(result.frames(), record))
    seal(place, record, started)


def seal(place: RunDirectory, record: dict[str, Any], started: float) -> None:
    """Write the record with the time since `started` and the hashes of all files."""
    hashes = directory.hashes(place.path, directory.TRACKED)
    directory.write_record(
        place.path, {**record, "wall_seconds": place.elapsed(started), "files": hashes}
    )


def _complete(place: RunDirectory, record: dict[str, Any]) -> bool:
    """Whether the run that was to go on has ended already, with all its files."""
    was = place.before
    if was is None or was["status"] in ("running", "interrupted"):
        return False
    if without_hashed_paths(was["scenario"]) != without_hashed_paths(record["scenario"]):
        return False
    return all((place.path / name).exists() for name in was["files"])
