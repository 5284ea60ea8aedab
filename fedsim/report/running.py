"""`fedsim.run`: a scenario in, frames out, and whatever happens in between, nothing that was committed is lost."""

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim import tree
from fedsim.data import Arrays
from fedsim.engine.checkpoint import CheckpointError, CorruptError, digest
from fedsim.engine.processes import first, joined, shared
from fedsim.engine.run import Rest, Row, Run
from fedsim.report import directory, files
from fedsim.report.environment import memory, numerical, surroundings
from fedsim.report.journal import CHANGEABLE, Journal, Pace, demand_same
from fedsim.report.result import Result, close, slug
from fedsim.scenario import Experiment, build, read
from fedsim.scenario.build import numerics
from fedsim.scenario.plugins import own_links
from fedsim.scenario.schema import placeless

Watch = Callable[[Experiment, int, Row], None]


class Interrupted(BaseException):
    """A run that was asked to end early, after its commit; `--resume` goes on (exit code 130 or 143)."""


class Place(NamedTuple):
    """Where a run is kept."""

    path: Path
    before: dict[str, Any] | None  # record of the run that goes on


def run(
    scenario: Any,
    *,
    seeds: int | Sequence[int] | None = None,
    data: Arrays | None = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    edits: Sequence[str] = (),
    data_roots: Sequence[str | os.PathLike[str]] = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    watch: Watch | None = None,
    ask: Callable[[], bool] = lambda: False,
    pictures: bool = True,
    **build_options: Any,
) -> Result:
    """Run a scenario: every seed, every round -> frames.

    Args:
      scenario: path of a YAML file, a dictionary of the same shape, or a `Scenario`.
      seeds: instead of the scenario's: a number (the first so many) or a sequence.
      data: `fedsim.Arrays` in place of the scenario's data set.
      model: a `Model`, a pair `(init, apply)`, or an object with both, in place of the scenario's.
      params: start parameters, a PyTree that fits the model.
      loss: `f(outputs, y) -> loss per row`.
      edits: `PATH=VALUE` strings, as `--set` takes them.
      data_roots: folders that a scenario file may name data files in, besides its own and the working directory.
      out: write a run directory here, with commits to go on from.
      force: replace an earlier run there.
      resume: go on with the run there, from its last commit; one that has ended is only read.
      device: compute on these instead of all local devices: `cpu`, `gpu`, `gpu:0,1`.
      watch: called as `watch(experiment, seed, row)` after every evaluated round.
      ask: asked after every round whether to come to rest, commit and end.
      pictures: draw `figures/` into the run directory, which takes a second or two.
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
    if isinstance(scenario, dict) and data is not None:
        written = scenario.get("data") or {}
        scenario = {**scenario, "data": written if isinstance(written, str) else {"kind": "supplied", **written}}
    if seeds is not None:
        edits = [*edits, f"seeds={seeds if isinstance(seeds, int) else list(map(int, seeds))}"]
    checked = read(scenario, tuple(edits), data_roots=data_roots)
    given = {"data": data, "model": model, "params": params, "loss": loss}
    calls = build_options.pop("calls", None)
    with _place(out if first() else None, force, resume) as place:
        before = place.before if place else None
        threads = before["environment"].get("threads") if before else None
        within = functools.partial(numerics, checked, threads, device)
        with within() as devices:
            experiment = build(checked, devices=devices, **given, **build_options)
            record = record_of(experiment, devices, [name for name, value in given.items() if value is not None])
            if place:
                _open(place, record, experiment, force)
            try:
                result = _played(experiment, record, place, calls, watch, ask, within)
            except Interrupted:
                if place:
                    directory.write_record(place.path, {**record, "status": "interrupted"})
                raise
        if place and not _complete(place, record):
            spent = before["wall_seconds"] if before and "wall_seconds" in before else 0.0
            record["memory"] = memory(devices)
            drawn = result.figures() if pictures else {}
            _finish(place.path, record, result, drawn, spent + time.monotonic() - started)
    return result


@contextlib.contextmanager
def _place(out: str | os.PathLike[str] | None, force: bool, resume: bool) -> Iterator[Place | None]:
    """The run directory, held for the time of the run; None when nothing is to be written."""
    if out is None:
        yield None
        return
    path = Path(out)
    with directory.claimed(path, force, resume) as before, files.told(path):
        yield Place(path, before)


def record_of(experiment: Experiment, devices: list, supplied: Sequence[str]) -> dict[str, Any]:
    """What `run.json` says of a run before it starts; its `identity` determines every bit of the result."""
    hashes = {seed: plan.federation.fingerprint() for seed, plan in experiment.plans.items()}
    width = experiment.program.width
    record = {
        "status": "running",
        "scenario": experiment.scenario.resolved(),
        "method": experiment.method,
        "hashes": {
            "scenario": experiment.scenario.hash(),
            "data": next(iter(hashes.values()))["data"],
            "partition": {str(seed): h["partition"] for seed, h in hashes.items()},
            "start": {str(seed): digest(shared) for seed, shared in experiment.shared.items()},
        },
        "supplied": sorted(supplied),  # what a Python program must hand over again to repeat the run
        "own_links": own_links(experiment.scenario.spec),
        "lanes": width.lanes,
        "block": width.block,
        "environment": numerical(devices),
        "surroundings": surroundings(devices),
    }
    return json.loads(json.dumps(record))


def identity(record: dict[str, Any], seed: int | None = None) -> dict[str, Any]:
    """The part of a record that determines the bits of its runs, or of one seed's run."""
    kept = ("method", "supplied", "own_links", "environment")
    scenario = {name: value for name, value in placeless(record["scenario"]).items() if name not in CHANGEABLE}
    scenario["data"] = {name: value for name, value in scenario["data"].items() if name != "resident_mb"}
    hashes = {name: value for name, value in record["hashes"].items() if name != "scenario"}
    if seed is not None:
        scenario.pop("seeds")
        hashes = {name: h[str(seed)] if isinstance(h, dict) else h for name, h in hashes.items()} | {"seed": seed}
    return {"scenario": scenario, "hashes": hashes, **{name: record[name] for name in kept}}


def _open(place: Place, record: dict[str, Any], experiment: Experiment, force: bool) -> None:
    """Compare with the run that is to go on, or clear the place for a new one."""
    if place.before is not None:
        was, now = place.before["scenario"]["rounds"], record["scenario"]["rounds"]
        demand_same(identity(place.before), identity(record), str(place.path))
        if now < was:
            raise CheckpointError(
                f"{place.path}: scenario.rounds: {was}, now {now}; a run can be made longer, not shorter"
            )
        if _complete(place, record):
            return
    state = sum(tree.payload_bytes(shared) for shared in experiment.shared.values())
    files.demand_room(place.path, 3 * state)
    directory.begin(place.path, record, experiment.scenario.resolved(), anew=force)


def _played(
    experiment: Experiment,
    record: dict[str, Any],
    place: Place | None,
    calls: int | None,
    watch: Watch | None,
    ask: Callable[[], bool],
    within: Callable[[], Any],
) -> Result:
    """Every seed to its end; what is asked of the result later is computed `within` the same numerics."""
    result = Result(experiment)

    def scoped(compute: Callable) -> Callable:
        def later():
            with within():
                return compute()

        return functools.cache(later)

    for seed in experiment.plans:
        if ask():
            raise Interrupted(f"before seed {seed}")
        journal, folder = _journal(experiment, record, place, seed)
        one = experiment.run(seed, calls, folder)
        _play(one, journal, {"method": result.method, "seed": seed}, experiment, watch, ask)
        result.keep(seed, journal, one, scoped)
    return result


def _journal(
    experiment: Experiment, record: dict[str, Any], place: Place | None, seed: int
) -> tuple[Journal, Path | None]:
    """The journal of a seed, and the folder for its files."""
    pace = experiment.scenario.spec.checkpoint
    folder = None
    if place:
        folder = folder_of(place.path, experiment.method, seed)
        files.make_folder(folder)
    return Journal(folder, identity(record, seed), Pace(pace.seconds, pace.rounds)), folder


def folder_of(path: Path, method: str, seed: int) -> Path:
    """Where a run directory keeps the log and the commits of a seed."""
    return path / directory.COMMITS / f"{slug(method)}.{seed}"


def _play(
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


def _finish(path: Path, record: dict[str, Any], result: Result, drawn: dict[str, bytes], seconds: float) -> None:
    """Tables, models, pictures, and last the record with the hashes of all files: what says so there is complete."""
    result.save(path)
    if drawn:
        files.make_folder(path / directory.FIGURES)
    for name, content in drawn.items():
        files.write(path / directory.FIGURES / name, content)
    ended = {"status": result.status, "reasons": {str(seed): why for seed, why in result.reasons.items()}}
    directory.write_record(path, {**record, **ended, "wall_seconds": seconds, "files": directory.hashes(path)})


def _complete(place: Place, record: dict[str, Any]) -> bool:
    """Whether the run that was to go on has ended already, with all its files."""
    was = place.before
    if (
        was is None
        or placeless(was["scenario"]) != placeless(record["scenario"])
        or was["status"] in ("running", "interrupted")
    ):
        return False
    return all((place.path / name).exists() for name in was["files"])
