"""`fedsim.compare`: the grid, cell by cell, under the same seeds; what was finished is never done again."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.assemble.experiment import numerics
from fedsim.errors import CheckpointError, Interrupted, LostError, ScenarioError
from fedsim.runs import derive, directory, trackers
from fedsim.runs.changes import demand_unchanged
from fedsim.runs.commits import committed
from fedsim.runs.comparison import Comparison
from fedsim.runs.dealt import with_dealt
from fedsim.runs.environment import memory, numerical, surroundings
from fedsim.runs.execute import Configuration, Ended, Watch, listener
from fedsim.runs.executor import Executor, Run, left_and_ended, play, whole_runs
from fedsim.runs.filenames import Layout, label_of, names_of
from fedsim.runs.refusals import Compared, read_whole, refuse
from fedsim.runs.run import RunDirectory, open_run_directory, seal, seed_edits
from fedsim.runs.sweep import Sweep, cached_partition
from fedsim.runs.terms import Terms, terms_of
from fedsim.runs.unfinished import demand_reachable, runs_of
from fedsim.runs.workers import Workers, programs_of
from fedsim.scenario.places import resolved_from, roots_of
from fedsim.scenario.plugins import own_links
from fedsim.study.grid import Cell, Design, design_of


def compare(
    scenario: Any,
    methods: str | Sequence[Any] | None = None,
    *,
    vary: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    tune: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    jobs: int = 1,
    on: Any = None,
    seeds: int | Sequence[int] | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    score: str | None = None,
    edits: Sequence[str] = (),
    data_roots: Sequence[str | os.PathLike[str]] = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    device: str | None = None,
    watch: Watch | None = None,
    ask: Callable[[], bool] = lambda: False,
    log_to: str | Sequence[str] = (),
    pictures: bool = True,
) -> Comparison:
    """Run several methods under identical conditions over several seeds, and test the differences.

    Under a seed every method has the same partition, start model, cohorts, batches and failures, so differences are
    paired. A configuration that fails is a row with its reason, not the end of the others.

    Args:
      scenario: path of a YAML file, a dictionary of the same shape, or a `Scenario`.
      methods: labels such as `["fedavg", "fedprox(mu=0.1)"]`, one text of them, or mappings `{"method": ..., "label": ...,
        "set": {path: value}, "tune": {path: [values]}}`; left out: the scenario's `compare.methods`. Of
        `"fedprox(mu=0.1|1)"` and of what a method's own `tune` lists one value is chosen, as of `tune`.
      vary: axes of a grid, `{path: [values]}` or `PATH=V1,V2` texts; left out: the scenario's `compare.vary`.
      tune: settings that every method is tried with, in the form of `vary`; the one with the best final validation metric
        (mean over seeds, ties to the first) is reported, on test data. Left out: the scenario's `compare.tune`.
      jobs: processes that play runs side by side; changes no bit. A script that asks for more than one keeps its own start
        under `if __name__ == "__main__"`, since they import it.
      on: `dask://HOST:PORT` of a scheduler (`tls://HOST:PORT` with the certificates of dask's own configuration), or a
        `distributed.Client`, whose workers play the runs; changes no bit either. Both ends unpickle what the other sends.
      seeds: instead of the scenario's: a number (the first so many) or a sequence.
      baseline: the method that the others are compared with; left out: `fedavg` where it is compared, else the first.
      metric: column of `rounds.csv` that decides, instead of the scenario's `evaluate.metric`.
      score: `final` (the default), `best`, or `mean_last_k` of the metric.
      edits: `PATH=VALUE` strings, as `--set` takes them.
      data_roots: folders that a scenario file may name data files in, besides its own and the working directory.
      out: write a run directory here, with commits to go on from.
      force: replace an earlier one there.
      resume: go on with the comparison there; what was finished is only read. Methods, variations and seeds may be added.
      device: compute on these instead of all local devices: `cpu`, `gpu`, `gpu:0,1`.
      watch: called as `watch(experiment, seed, row)` after every evaluated round.
      ask: asked after every round whether to come to rest, commit and end.
      log_to: trackers that get every row as well: `tensorboard`, `wandb`, `mlflow`, several with commas between or as a
        sequence; they need `out`, and their files lie there (`fedsim.runs.trackers` says how). With `jobs` or `on`,
        they get the rows when the runs have ended.
      pictures: draw `figures/` into the run directory.

    Returns:
      Frames over the whole grid, the table of paired differences, and a verdict in words.

    Raises:
      ScenarioError: for a scenario, method or axis that cannot be.
      DirectoryError: for an output directory that is taken, or cannot be written.
      LockedError: for one that another process is writing.
      CheckpointError: for runs that cannot go on.
      ProcessError: when no workers answer, or some differ from this machine in what decides bits.
      LostError: when workers were lost and did not come back; what they finished is kept, and `resume` goes on.
      Interrupted: when `ask` said so.
    """
    started = time.monotonic()
    names = trackers.named(log_to, out)
    edits = (edits,) if isinstance(edits, str) else tuple(edits)
    edits = (
        *edits,
        *seed_edits(seeds),
        *([f"evaluate.metric={metric}"] if metric is not None else []),
    )
    wanted = Compared(methods, vary, tune, baseline, score)
    whole = read_whole(scenario, edits, data_roots, device, wanted)
    try:
        design = design_of(whole, *wanted)
    except ScenarioError:
        refuse(whole, device, wanted)
        raise
    base, cells, partition = design.scenario, design.cells, cached_partition()
    with open_run_directory(out, force, resume) as place, contextlib.ExitStack() as stack:
        labels = [label_of(cell.who) for cell in cells]
        layout = log = None
        if place:
            layout = place.layout(labels)
            log = stack.enter_context(contextlib.closing(trackers.Log(names, layout, resume)))
        elif jobs > 1 or on:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            layout = Layout(folder, names_of(labels))
        threads = place.threads if place else None
        with numerics(base, threads, device) as devices:
            design = with_dealt(design, partition)
            record = _record(design, devices)
            within = lambda scenario: numerics(scenario, threads, device)
            here = Sweep(devices, within, layout, listener(watch, log), partition)
            others: Executor | None = None
            if layout and on:
                terms = lambda: terms_of(cells, base.document, record, device, devices)
                others = stack.enter_context(_cluster(on, layout, terms))
            elif layout and jobs > 1:
                others = Workers(base.document, layout, jobs, device, threads, partition)
            if place and layout:
                record["names"] = layout.names
                _open(place, record, design)
            try:
                begin = getattr(watch, "begin", lambda *_: None)
                begin(_configurations(cells), (others or here).slots())
                if layout and others:
                    left, ended = left_and_ended(whole_runs(cells), layout)
                    tell = _teller(watch, layout)
                    tell(ended)
                    play(others, left, ask, tell)
                play(here, whole_runs(cells), ask)  # what others have played is read
            except (Interrupted, LostError):
                if place:
                    derive.stopped(place.path, place.elapsed(started), pictures)
                raise
            resolved = design.scenario.resolved()
            comparison = Comparison(here.outcomes, resolved, design.baseline, design.score)
            if place and layout:
                _finish(place, layout, record, comparison, devices, pictures, started)
    return comparison


def _record(design: Design, devices: list) -> dict[str, Any]:
    """The content of a comparison's `run.json` before it starts."""
    base, cells, baseline, score = design
    links = {name: sha for cell in cells for name, sha in own_links(cell.scenario.spec).items()}
    return {
        "status": "running",
        "kind": "compare",
        "scenario": resolved_from(base),
        "method": baseline,
        "baseline": baseline,
        "score": score,
        "cells": [cell.who for cell in cells],
        "planned": {label_of(cell.who): _planned(cell.scenario.spec) for cell in cells},
        "halves": {cell.method: halves(cell.scenario.spec) for cell in cells},
        "hashes": {
            "scenario": base.hash(),
            "cells": {label_of(c.who): c.scenario.hash() for c in cells},
        },
        "supplied": [],
        "own_links": links,
        "environment": numerical(devices),
        "surroundings": surroundings(devices, roots_of(base.document)),
    }


@contextlib.contextmanager
def _cluster(on: Any, layout: Layout, terms: Callable[[], Terms]) -> Iterator[Executor]:
    """Workers that were compared with this machine; the terms are made once there is a scheduler."""
    from fedsim.runs.cluster import Cluster, connected

    with connected(on) as (client, name):
        yield Cluster(client, name, terms(), layout)


def _configurations(cells: Sequence[Cell]) -> dict[str, Configuration]:
    """What is to be played, by label."""
    configurations = {}
    for number, cell in enumerate(cells, 1):
        spec = cell.scenario.spec
        program = programs_of(cell)
        configurations[label_of(cell.who)] = Configuration(
            number, len(spec.seeds), spec.rounds, program
        )
    return configurations


def _teller(watch: Watch | None, layout: Layout) -> Callable[[Sequence[Run]], None]:
    """What tells a `watch` of runs that were played elsewhere and have ended."""
    tell = getattr(watch, "ended", None)
    if tell is None:
        return lambda runs: None
    return lambda runs: tell([_ended(layout, *run) for run in runs])


def _ended(layout: Layout, label: str, seed: int) -> Ended:
    """A run that was played elsewhere, from its journal.

    One that is damaged is told of when it is read for its tables.
    """
    done = None
    with contextlib.suppress(CheckpointError):
        done = committed(layout.folder(label, seed), rounds=0)  # as it is, whatever it may go on to
    timing = done.tables.get("timing") if done else None
    if not done or not timing:
        return Ended(label)
    return Ended(label, done.round, timing[-1]["wall_seconds"], timing[-1]["compile_seconds"])


def _planned(spec: Any) -> dict[str, Any]:
    """What a configuration will be run for."""
    return {"rounds": spec.rounds, "seeds": spec.seeds}


def halves(spec: Any) -> str:
    """The client half and the server half of a method, with the weights of its mean: `sgd → mean(uniform) → adam`."""
    links = [
        f"{link.kind}({link.weights})" if hasattr(link, "weights") else link.kind
        for link in spec.server
    ]
    return " → ".join([spec.client.kind, *links])


def _open(place: RunDirectory, record: dict[str, Any], design: Design) -> None:
    """Compare with the one that is to go on, or clear the place for a new one."""
    if place.before is not None and place.before.get("kind") != "compare":
        raise CheckpointError(
            f"{place.path}: holds a single run, not a comparison; choose another --out"
        )
    if place.before is not None:
        begun = place.before.get("planned") or {}
        for cell in design.cells:
            if label_of(cell.who) in begun:
                demand_unchanged(
                    cell.scenario.resolved(), place.before["environment"], str(place.path)
                )
        _demand_reachable(place.path, record, begun, design)
    derive.clear(place.path, place.before)
    directory.begin(
        place.path, record, resolved_from(design.scenario, place.path), anew=place.before is None
    )


def _demand_reachable(
    path: Path, record: dict[str, Any], before: dict[str, Any], design: Design
) -> None:
    """Raises CheckpointError for runs that are to end before their last commits."""
    runs = runs_of(path, record)
    for cell in design.cells:
        was = before.get(label_of(cell.who)) or {}
        if was.get("rounds", 0) > cell.scenario.spec.rounds:
            demand_reachable(path, cell.scenario, [run for run in runs if run.who == cell.who])


def _finish(
    place: RunDirectory,
    layout: Layout,
    record: dict[str, Any],
    comparison: Comparison,
    devices: list,
    pictures: bool,
    started: float,
) -> None:
    """Tables, models, pictures, and last the record with the hashes of all files."""
    comparison.write(layout)
    ended = {
        "status": comparison.status,
        "reasons": comparison.reasons,
        "verdict": comparison.verdict,
    }
    if pictures:
        derive.write(place.path, derive.derived_files(comparison.frames(), {**record, **ended}))
    seal(place, {**record, **ended, "memory": memory(devices)}, started)
