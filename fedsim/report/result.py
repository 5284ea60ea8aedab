"""What came out of a scenario: frames, models and states, and how they become files."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from fedsim import tree
from fedsim.data import Federation
from fedsim.engine.ending import client_scores, final_state
from fedsim.engine.run import Run
from fedsim.report import directory, files, frames
from fedsim.report.journal import Journal
from fedsim.scenario import Experiment

ORDER = {
    "rounds": frames.ROUNDS,
    "clients": frames.CLIENTS,
    "partition": frames.PARTITION,
    "summary": frames.SUMMARY,
    "timing": frames.TIMING,
}


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
      reasons: why, for every seed that did not end as `done`.
    """

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.scenario: dict[str, Any] = experiment.scenario.resolved()
        self.method = experiment.method
        self.status = "done"
        self.reasons: dict[int, str] = {}
        self.records: dict[str, list[frames.Record]] = {name: [] for name in ORDER}
        self._models: dict[tuple[str, int], Any] = {}
        self._states: dict[tuple[str, int], Callable[[], Any]] = {}

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
        return self._one(self._states, method, seed)()

    def _one(self, kept: dict[tuple[str, int], Any], method: str | None, seed: int | None) -> Any:
        found = [v for (m, s), v in kept.items() if method in (None, m) and seed in (None, s)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} runs fit method={method!r}, seed={seed!r}; there are {sorted(kept)}")
        return found[0]

    def keep(self, seed: int, journal: Journal, run: Run, scoped: Callable) -> None:
        """Take over a finished seed.

        Args:
          seed: which.
          journal: its rows.
          run: its final server and memory.
          scoped: wraps what computes later, as the run's numerics ask for.
        """
        if run.status != "done":
            self.status, self.reasons[seed] = run.status, run.reason
        for name in ORDER:
            self.records[name] += journal.records.get(name, [])
        self._models[self.method, seed] = jax.tree.map(np.asarray, tree.take(run.server.bank, 0))
        self._states[self.method, seed] = scoped(partial(final_state, run))

    def save(self, path: Path) -> None:
        """Write tables and models; every file is whole or as it was before."""
        for name, order in ORDER.items():
            files.write(path / f"{name}.csv", frames.to_csv(self.records[name], order))
        for (method, seed), variables in self._models.items():
            directory.write_model(path / f"model.{slug(method)}.{seed}.safetensors", variables)


def close(journal: Journal, run: Run, who: dict[str, Any], evaluate: Any, several: bool) -> None:
    """The tables of a run that has ended, into its journal.

    Args:
      journal: holds its rows.
      run: the run.
      who: method and seed.
      evaluate: the scenario's section.
      several: whether there are more seeds, so that partitions have to be told apart.
    """
    rows = journal.records["rounds"]
    line = frames.summarise(rows, evaluate.metric, evaluate.last, evaluate.target, run.status == "diverged")
    journal.add("summary", line)
    journal.add("clients", {**who, **_clients(run)})
    seed = {"seed": who["seed"]} if several else {}
    journal.add("partition", {**seed, **_partition(run.plan.federation, run.joined)})


def slug(label: str) -> str:
    """A method's label as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")


def _clients(run: Run) -> frames.Record:
    f = run.plan.federation
    loss, accuracy, scored = client_scores(run)
    listed = _listed(f, run.joined)
    joined = run.joined[listed]
    table: frames.Record = {"client": listed.tolist(), "samples": run.plan.sizes[listed].tolist()}
    if f.classes:
        table["classes"] = (f.label_counts() > 0).sum(1)[listed].tolist()
    table |= {"rounds_joined": joined.tolist(), "bytes_up": (joined * run.message_bytes["up"]).tolist()}
    for name, values in (("global_loss", loss), ("global_accuracy", accuracy))[: 2 if f.classes else 1]:
        pairs = zip(values[listed].tolist(), scored[listed].tolist(), strict=True)
        table[name] = [value if n else None for value, n in pairs]
    return table


def _partition(f: Federation, joined: np.ndarray) -> frames.Record:
    listed = _listed(f, joined)
    if not f.classes:
        return {"client": listed.tolist(), "label": [None] * len(listed), "samples": f.sizes[listed].tolist()}
    counts = f.label_counts()[listed]
    row, label = np.nonzero(counts)
    return {"client": listed[row].tolist(), "label": label.tolist(), "samples": counts[row, label].tolist()}


def _listed(f: Federation, joined: np.ndarray) -> np.ndarray:
    """Clients that tables list: all, or of more than 100,000 those that ever took part."""
    return np.arange(f.N) if f.N <= 100_000 else np.flatnonzero(joined)
