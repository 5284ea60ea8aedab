"""`fedsim.compare`: the grid, cell by cell, under the same seeds; what was finished is never done again."""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedsim.engine.checkpoint import CheckpointError, CorruptError
from fedsim.report import directory, files
from fedsim.report.comparison import Comparison, Outcome
from fedsim.report.environment import memory
from fedsim.report.playing import Interrupted, Watch, played
from fedsim.report.record import record_of
from fedsim.report.running import Place, place_of
from fedsim.scenario import ScenarioError, build, read
from fedsim.scenario.build import numerics
from fedsim.scenario.problems import Problem
from fedsim.study.grid import Cell, asked, chosen_baseline, grid, variations

SCORES = ("final", "best", "mean_last_k")
FATAL = (Interrupted, directory.LockedError, files.DirectoryError, CheckpointError, CorruptError)


def compare(
    scenario: Any,
    methods: str | Sequence[Any] | None = None,
    *,
    vary: Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
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
    base, cells, chosen = _asked_for(scenario, methods, vary, seeds, baseline, metric, edits, data_roots)
    by = score or (base.spec.compare.score if base.spec.compare else "final")
    if by not in SCORES:
        raise ScenarioError([Problem("", f"should be one of {', '.join(SCORES)}, found '{by}'")], "--score")
    with place_of(out, force, resume) as place:
        threads = place.before["environment"].get("threads") if place and place.before else None
        within = functools.partial(numerics, base, threads, device)
        with within() as devices:
            record = _record(base, cells, chosen, by, devices)
            if place:
                _open(place, record, base)
            try:
                outcomes = [_one(cell, place, devices, watch, ask, within) for cell in cells]
            except Interrupted:
                if place:
                    directory.write_record(place.path, {**record, "status": "interrupted"})
                raise
            found = Comparison(outcomes, base.resolved(), chosen, by)
            if place:
                _finish(place, record, found, devices, pictures, time.monotonic() - started)
    return found


def _asked_for(scenario, methods, vary, seeds, baseline, metric, edits, data_roots):
    """The scenario without its grid, the cells, and the baseline's label."""
    edits = [edits] if isinstance(edits, str) else list(edits)
    if seeds is not None:
        edits.append(f"seeds={seeds if isinstance(seeds, int) else list(map(int, seeds))}")
    if metric is not None:
        edits.append(f"evaluate.metric={metric}")
    base = read(scenario, tuple(edits), data_roots=data_roots)
    written = base.spec.compare
    wanted = asked(methods if methods is not None else (written.methods if written else None))
    if not wanted:
        what = "no methods to compare; name them: --methods fedavg,fedadam (fedsim list methods), or compare.methods"
        raise ScenarioError([Problem("compare.methods", what)], base.document.file)
    axes = vary if vary else (written.vary if written else {})
    cells = grid(base.document, wanted, variations(axes))
    return base, cells, chosen_baseline([m.label for m in wanted], baseline or (written.baseline if written else None))


def _record(base: Any, cells: list[Cell], baseline: str, score: str, devices: list) -> dict[str, Any]:
    """What `run.json` says of a comparison before it starts."""
    from fedsim.report.environment import numerical, surroundings
    from fedsim.scenario.plugins import own_links

    links = {name: sha for cell in cells for name, sha in own_links(cell.scenario.spec).items()}
    hashes = {" ".join(filter(None, (c.method, c.variant))): c.scenario.hash() for c in cells}
    return {
        "status": "running",
        "kind": "compare",
        "scenario": base.resolved(),
        "method": baseline,
        "baseline": baseline,
        "score": score,
        "cells": [{"method": c.method, "variant": c.variant, "varied": c.varied} for c in cells],
        "hashes": {"scenario": base.hash(), "cells": hashes},
        "supplied": [],
        "own_links": links,
        "environment": numerical(devices),
        "surroundings": surroundings(devices),
    }


def _open(place: Place, record: dict[str, Any], base: Any) -> None:
    """Compare with what is to go on, or clear the place for something new."""
    before = place.before
    if before is not None and before.get("kind") != "compare":
        raise CheckpointError(f"{place.path}: holds a single run, not a comparison; choose another --out")
    directory.begin(place.path, record, base.resolved(), anew=before is None)


def _one(cell: Cell, place: Place | None, devices: list, watch, ask, within) -> Outcome:
    """One cell under all of its seeds; what goes wrong with it alone is its outcome."""
    who = {"method": cell.method, **({"variant": cell.variant, **cell.varied} if cell.variant else {})}
    try:
        experiment = build(cell.scenario, devices=devices)
        record = {**record_of(experiment, devices, []), "method": cell.method}
        path = place.path if place else None
        return Outcome(cell, who, played(experiment, record, path, None, watch, ask, within, who))
    except FATAL:
        raise
    except Exception as error:
        return Outcome(cell, who, None, " ".join(str(error).split()) or type(error).__name__)


def _finish(
    place: Place, record: dict[str, Any], found: Comparison, devices: list, pictures: bool, seconds: float
) -> None:
    """Tables, models and pictures, and last the record with the hashes of all files."""
    found.save(place.path, pictures)
    before = place.before or {}
    ended = {"status": found.status, "reasons": found.reasons, "verdict": found.verdict, "memory": memory(devices)}
    spent = before.get("wall_seconds", 0.0) + seconds
    directory.write_record(
        place.path, {**record, **ended, "wall_seconds": spent, "files": directory.hashes(place.path)}
    )
