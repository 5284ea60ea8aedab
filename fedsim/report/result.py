"""`fedsim.run`: a scenario in, frames out."""

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from fedsim import tree
from fedsim.data import Arrays, Federation
from fedsim.engine.run import Row, Run, client_scores, final_state
from fedsim.report import directory, frames
from fedsim.scenario import Experiment, build, read
from fedsim.scenario.build import numerics

Watch = Callable[[Experiment, int, Row], None]


class Result:
    """What came out of a scenario.

    Attributes:
      rounds: a row per seed and evaluated round, as in `rounds.csv`.
      clients: a row per seed and client.
      partition: a row per client and label.
      summary: a row per seed.
      timing: what may differ between two equal runs.
      scenario: the resolved scenario, every default filled in.
      status: `done`, `diverged` or `stopped`.
    """

    def __init__(self, experiment: Experiment, supplied: Sequence[str] = ()):
        self.experiment = experiment
        self.supplied = sorted(supplied)
        self.scenario: dict[str, Any] = experiment.scenario.resolved()
        self.method = experiment.method
        self.status = "done"
        self.records: dict[str, list[frames.Record]] = {name: [] for name in ORDER}
        self._models: dict[tuple[str, int], Any] = {}
        self._states: dict[tuple[str, int], Any] = {}

    def _frame(self, name: str) -> pd.DataFrame:
        return frames.frame(self.records[name], ORDER[name])

    rounds = property(lambda self: self._frame("rounds"))
    clients = property(lambda self: self._frame("clients"))
    partition = property(lambda self: self._frame("partition"))
    summary = property(lambda self: self._frame("summary"))
    timing = property(lambda self: self._frame("timing"))

    def model(self, method: str | None = None, seed: int | None = None) -> Any:
        """Final shared parameters as a PyTree of NumPy arrays.

        Args:
          method: as in the `method` column; may be left out where there is one.
          seed: may be left out where there is one.

        Raises:
          KeyError: when that run is not part of the result.
        """
        return self._one(self._models, method, seed)["params"]

    def state(self, method: str | None = None, seed: int | None = None) -> dict[str, dict[str, Any]]:
        """What server and clients remember at the end, by the names of the papers.

        `["server"]`: the method's shared section (SCAFFOLD's `c`) and the named states of optimisers (`m`, `v`, `trace`,
        ...). `["client"]`: the clients' memory (`c_i`), stacked `[N, ...]` in the order of ids; a client that never took
        part has the row it would start with.
        """
        return self._one(self._states, method, seed)

    def _one(self, kept: dict[tuple[str, int], Any], method: str | None, seed: int | None) -> Any:
        found = [v for (m, s), v in kept.items() if method in (None, m) and seed in (None, s)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} runs fit method={method!r}, seed={seed!r}; there are {sorted(kept)}")
        return found[0]

    def _keep(self, seed: int, rows: list[Row], run: Run) -> None:
        """One finished seed, as records."""
        who = {"method": self.method, "seed": seed}
        diverged = rows[-1].status == "diverged"
        if rows[-1].status != "done":
            self.status = rows[-1].status
        mine = [{**who, **row.values} for row in rows]
        evaluate = self.experiment.scenario.spec.evaluate
        self.records["rounds"] += mine
        self.records["timing"] += [{**who, **row.timing} for row in rows]
        self.records["summary"].append(
            frames.summarise(mine, evaluate.metric, evaluate.last, evaluate.target, diverged)
        )
        self.records["clients"] += [{**who, **record} for record in _clients(run)]
        several = len(self.experiment.plans) > 1
        self.records["partition"] += [
            {"seed": seed, **record} if several else record for record in _partition(run.plan.federation, run.joined)
        ]
        shared = tree.take(run.server.bank, 0)
        self._models[self.method, seed] = jax.tree.map(np.asarray, shared)
        self._states[self.method, seed] = final_state(run)

    def save(self, path: Path, wall_seconds: float) -> None:
        """Write the run directory; `run.json` comes last, so a directory that has one is complete."""
        for name, order in ORDER.items():
            directory.write(path / f"{name}.csv", frames.to_csv(self.records[name], order))
        for (method, seed), variables in self._models.items():
            directory.write_model(path / f"model.{_slug(method)}.{seed}.safetensors", variables)
        directory.write_yaml(path / "scenario.yaml", self.scenario)
        plans = self.experiment.plans
        hashes = {seed: plan.federation.fingerprint() for seed, plan in plans.items()}
        width = self.experiment.program.width
        record = {
            "status": self.status,
            "wall_seconds": wall_seconds,
            "hashes": {
                "scenario": self.experiment.scenario.hash(),
                "data": next(iter(hashes.values()))["data"],
                "partition": {seed: h["partition"] for seed, h in hashes.items()},
            },
            "supplied": self.supplied,  # what a Python program must hand over again to repeat the run
            "lanes": width.lanes,
            "block": width.block,
            **directory.environment(),
        }
        directory.write_json(path / directory.RECORD, record)


ORDER = {
    "rounds": frames.ROUNDS,
    "clients": frames.CLIENTS,
    "partition": frames.PARTITION,
    "summary": frames.SUMMARY,
    "timing": frames.TIMING,
}


def run(
    scenario: Any,
    *,
    seeds: int | Sequence[int] | None = None,
    data: Arrays | None = None,
    model: Any = None,
    params: Any = None,
    loss: Callable | None = None,
    edits: Sequence[str] = (),
    out: str | os.PathLike | None = None,
    force: bool = False,
    watch: Watch | None = None,
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
      out: write a run directory here.
      force: replace an earlier run there.
      watch: called as `watch(experiment, seed, row)` after every evaluated round.
      build_options: `calls` (device calls per block) and `pack` (which lane a client lands on) change no bit.

    Raises:
      ScenarioError: for a scenario that cannot run as written.
      DataError: for samples that cannot be learned from.
      DirectoryError: for an output directory that is taken.
    """
    started = time.monotonic()
    if isinstance(scenario, dict) and data is not None:
        written = scenario.get("data") or {}
        scenario = {**scenario, "data": written if isinstance(written, str) else {"kind": "supplied", **written}}
    if seeds is not None:
        edits = [*edits, f"seeds={seeds if isinstance(seeds, int) else list(map(int, seeds))}"]
    checked = read(scenario, tuple(edits))
    if out is not None:
        directory.demand_vacant(Path(out), force)
    calls = build_options.pop("calls", None)
    with numerics(checked):
        experiment = build(checked, data=data, model=model, params=params, loss=loss, **build_options)
        if out is not None:
            directory.claim(Path(out), force)
        given = {"data": data, "model": model, "params": params, "loss": loss}
        result = Result(experiment, [name for name, value in given.items() if value is not None])
        for seed in experiment.plans:
            one = experiment.run(seed, calls)
            rows = []
            for row in one:
                rows.append(row._replace(server=None))
                if watch:
                    watch(experiment, seed, row)
            result._keep(seed, rows, one)
    if out is not None:
        result.save(Path(out), time.monotonic() - started)
    return result


def _clients(run: Run) -> list[frames.Record]:
    f = run.plan.federation
    loss, accuracy, scored = client_scores(run)
    listed = _listed(f, run.joined)
    classes = (f.label_counts() > 0).sum(1) if f.classes else None
    records = []
    for k in listed:
        record = {"client": int(k), "samples": int(f.sizes[k])}
        if classes is not None:
            record["classes"] = int(classes[k])
        record |= {
            "rounds_joined": int(run.joined[k]),
            "bytes_up": int(run.joined[k]) * run.message_bytes["up"],
            "global_loss": float(loss[k]) if scored[k] else None,
        }
        if classes is not None:
            record["global_accuracy"] = float(accuracy[k]) if scored[k] else None
        records.append(record)
    return records


def _partition(f: Federation, joined: np.ndarray) -> list[frames.Record]:
    if not f.classes:
        return [{"client": int(k), "label": None, "samples": int(f.sizes[k])} for k in _listed(f, joined)]
    counts = f.label_counts()
    return [
        {"client": int(k), "label": int(label), "samples": int(counts[k, label])}
        for k in _listed(f, joined)
        for label in np.flatnonzero(counts[k])
    ]


def _slug(label: str) -> str:
    """A method's label as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")


def _listed(f: Federation, joined: np.ndarray) -> np.ndarray:
    """Clients that tables list: all, or of more than 100,000 those that ever took part."""
    return np.arange(f.N) if f.N <= 100_000 else np.flatnonzero(joined)
