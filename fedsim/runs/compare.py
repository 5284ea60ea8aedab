"""`fedsim.compare`: the grid, cell by cell, under the same seeds; what was finished is never done again."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.build.experiment import numerics
from fedsim.errors import CheckpointError, Interrupted, Problem, ScenarioError
from fedsim.runs import derive as derived
from fedsim.runs import directory, trackers
from fedsim.runs.comparison import Comparison
from fedsim.runs.environment import memory, numerical, surroundings
from fedsim.runs.execute import Watch, shown
from fedsim.runs.form import SCORES
from fedsim.runs.result import label_of
from fedsim.runs.run import Place, place_of
from fedsim.runs.sweep import swept
from fedsim.runs.workers import play_ahead
from fedsim.scenario import Scenario, read
from fedsim.scenario.plugins import own_links
from fedsim.study.grid import MOST_RUNS, Cell, asked, axes, chosen_baseline, demand_few, grid, section_of, variations


def compare(
    scenario: Any,
    methods: str | Sequence[Any] | None = None,
    *,
    vary: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    tune: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    jobs: int = 1,
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
        "set": {path: value}}`; left out: the scenario's `compare.methods`.
      vary: axes of a grid, `{path: [values]}` or `PATH=V1,V2` texts; left out: the scenario's `compare.vary`.
      tune: settings that every method is tried with, in the form of `vary`; the one with the best final validation metric
        (mean over seeds, ties to the first) is reported, on test data. Left out: the scenario's `compare.tune`.
      jobs: processes that play runs side by side; changes no bit. A script that asks for more than one keeps its own start
        under `if __name__ == "__main__"`, since they import it.
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
        sequence; they need `out`, and their files lie there (`fedsim.runs.trackers` says how). With `jobs`,
        they get the rows when the runs have ended.
      pictures: draw `figures/` into the run directory.

    Returns:
      Frames over the whole grid, the table of paired differences, and a verdict in words.

    Raises:
      ScenarioError: for a scenario, method or axis that cannot be.
      DirectoryError: for an output directory that is taken, or cannot be written.
      LockedError: for one that another process is writing.
      CheckpointError: for runs that cannot go on.
      Interrupted: when `ask` said so.
    """
    started = time.monotonic()
    named = trackers.named(log_to, out)
    asked_for = _asked_for(scenario, methods, vary, tune, seeds, baseline, metric, score, edits, data_roots)
    base, cells = asked_for.base, asked_for.cells
    with place_of(out, force, resume) as place, contextlib.ExitStack() as stack:
        path = place.path if place else Path(stack.enter_context(tempfile.TemporaryDirectory())) if jobs > 1 else None
        tell = stack.enter_context(trackers.telling(named, place.path, resume)) if place else None
        threads = place.before["environment"].get("threads") if place and place.before else None
        with numerics(base, threads, device) as devices:
            record = _record(asked_for, devices)
            if place:
                _open(place, record, base)
            try:
                runs = sum(len(cell.scenario.spec.seeds) for cell in cells)
                getattr(watch, "begin", lambda runs: None)(runs)
                if jobs > 1 and path:
                    ended = getattr(watch, "ended", lambda runs: None)
                    play_ahead(base.document, cells, path, jobs, device, threads, ask, ended)
                within = lambda scenario: numerics(scenario, threads, device)
                outcomes = swept(cells, path, devices, shown(watch, tell), ask, within)
            except Interrupted:
                if place:
                    directory.write_record(place.path, {**record, "status": "interrupted"})
                raise
            found = Comparison(outcomes, base.resolved(), asked_for.baseline, asked_for.score)
            if place:
                _finish(place, record, found, devices, pictures, time.monotonic() - started)
    return found


class AskedFor(NamedTuple):
    """A comparison as it was described.

    Attributes:
      base: the scenario, with all that is compared in its section.
      cells: of the grid.
      baseline: label of the method that the others are compared with.
      score: what of a run is compared.
    """

    base: Scenario
    cells: list[Cell]
    baseline: str
    score: str


def _asked_for(scenario, methods, vary, tune, seeds, baseline, metric, score, edits, data_roots) -> AskedFor:
    """What the arguments say, and where they say nothing the scenario's `compare` section."""
    edits = [edits] if isinstance(edits, str) else list(edits)
    if seeds is not None:
        edits.append(f"seeds={seeds if isinstance(seeds, int) else list(map(int, seeds))}")
    if metric is not None:
        edits.append(f"evaluate.metric={metric}")
    base = read(scenario, tuple(edits), data_roots=data_roots)
    written = base.spec.compare
    wanted = asked(written.methods if methods is None else methods)
    if not wanted:
        what = "no methods to compare; name them: --methods fedavg,fedadam (fedsim list methods), or compare.methods"
        raise ScenarioError([Problem("compare.methods", what)], base.document.file)
    varied, grids = axes(vary or written.vary), axes(tune or written.tune, "--tune")
    if grids and not base.spec.data.validation:
        raise base.error(("data", "validation"), "what is tuned is chosen on validation data; set data.validation=0.1")
    twice = sorted(varied.keys() & grids.keys())
    if twice:
        raise ScenarioError([Problem("", f"{twice[0]} is varied already; take out one of them")], "--tune")
    variants, settings = variations(varied, "compare.vary"), variations(grids, "compare.tune")
    demand_few(
        "seeds x variations x methods x settings",
        *map(len, (base.spec.seeds, variants, wanted, settings)),
        most=MOST_RUNS,
    )
    cells = grid(base.document, wanted, variants, settings)
    labels = [method.label for method in wanted]
    by = score or written.score
    if by not in SCORES:
        raise ScenarioError([Problem("", f"should be one of {', '.join(SCORES)}, found '{by}'")], "--score")
    chosen = chosen_baseline(labels, baseline or written.baseline)
    said = base.spec.model_copy(update={"compare": section_of(wanted, varied, grids, chosen, by)})
    return AskedFor(base._replace(spec=said), cells, chosen, by)


def _record(asked_for: AskedFor, devices: list) -> dict[str, Any]:
    """What `run.json` says of a comparison before it starts."""
    base, cells, baseline, score = asked_for
    links = {name: sha for cell in cells for name, sha in own_links(cell.scenario.spec).items()}
    return {
        "status": "running",
        "kind": "compare",
        "scenario": base.resolved(),
        "method": baseline,
        "baseline": baseline,
        "score": score,
        "cells": [cell.who for cell in cells],
        "halves": {cell.method: halves(cell.scenario.spec) for cell in cells},
        "hashes": {"scenario": base.hash(), "cells": {label_of(c.who): c.scenario.hash() for c in cells}},
        "supplied": [],
        "own_links": links,
        "environment": numerical(devices),
        "surroundings": surroundings(devices),
    }


def halves(spec: Any) -> str:
    """What a method does on the clients and on the server, and by which weights it means: `sgd → mean(uniform) → adam`."""
    links = [f"{link.kind}({link.weights})" if hasattr(link, "weights") else link.kind for link in spec.server]
    return " → ".join([spec.client.kind, *links])


def _open(place: Place, record: dict[str, Any], base: Scenario) -> None:
    """Compare with what is to go on, or clear the place for something new."""
    before = place.before
    if before is not None and before.get("kind") != "compare":
        raise CheckpointError(f"{place.path}: holds a single run, not a comparison; choose another --out")
    directory.begin(place.path, record, base.resolved(), anew=before is None)


def _finish(
    place: Place, record: dict[str, Any], found: Comparison, devices: list, pictures: bool, seconds: float
) -> None:
    """Tables, models, pictures, and last the record with the hashes of all files."""
    found.save(place.path)
    before = place.before or {}
    ended = {"status": found.status, "reasons": found.reasons, "verdict": found.verdict}
    if pictures:
        derived.write(place.path, derived.derived(place.path, {**record, **ended}))
    ended["memory"] = memory(devices)
    spent = before.get("wall_seconds", 0.0) + seconds
    directory.write_record(
        place.path, {**record, **ended, "wall_seconds": spent, "files": directory.hashes(place.path, directory.TRACKED)}
    )
