"""The result of a scenario: frames, models and states, and how they become files."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from fedsim.assemble import Experiment
from fedsim.disk import files, tables
from fedsim.disk.tables import Record
from fedsim.engine.final import final_state
from fedsim.engine.run import Run
from fedsim.runs import directory
from fedsim.runs.filenames import Layout, label_of, names_of
from fedsim.runs.journal import Journal
from fedsim.study.summary import growth

ORDER = {
    "rounds": tables.ROUNDS,
    "clients": tables.CLIENTS,
    "partition": tables.PARTITION,
    "staleness": tables.STALENESS,
    "machines": tables.MACHINES,
    "summary": tables.SUMMARY,
    "timing": tables.TIMING,
}
OPTIONAL = ("staleness", "machines")  # tables that are written where they have rows
State = dict[str, dict[str, Any]]
Numerics = Callable[
    [], AbstractContextManager[list]
]  # the context of a scenario's float types, threads and devices


class Tables:
    """The frames that runs and comparisons share.

    Attributes:
      records: the rows behind the frames, by their names.
    """

    records: dict[str, list[Record]]

    def order(self, name: str) -> Sequence[str]:
        """Columns of a table, in their order."""
        return ORDER[name]

    def frames(self) -> dict[str, pd.DataFrame]:
        """All of them, by their names; of those that not every run has, where it has them."""
        return {
            name: self._frame(name)
            for name, rows in self.records.items()
            if rows or name not in OPTIONAL
        }

    def _frame(self, name: str) -> pd.DataFrame:
        return tables.frame(self.records[name], self.order(name))

    @property
    def rounds(self) -> pd.DataFrame:
        return self._frame("rounds")

    @property
    def clients(self) -> pd.DataFrame:
        return self._frame("clients")

    @property
    def partition(self) -> pd.DataFrame:
        return self._frame("partition")

    @property
    def staleness(self) -> pd.DataFrame:
        return self._frame("staleness")

    @property
    def machines(self) -> pd.DataFrame:
        return self._frame("machines")

    @property
    def summary(self) -> pd.DataFrame:
        return self._frame("summary")

    @property
    def timing(self) -> pd.DataFrame:
        return self._frame("timing")


class Result(Tables):
    """The result of a scenario, as `fedsim.run` returns it: frames ready to plot, models, states.

    Attributes:
      rounds: a row per seed and evaluated round, as in `rounds.csv`; bytes and virtual seconds are cumulative.
      clients: a row per seed and client: samples, classes, rounds joined, the final model on its own samples.
      partition: a row per client and label, and per seed where there are several: who holds what.
      staleness: a row per seed and age of a message, of an asynchronous schedule: how many messages had it.
      machines: where machines or a schedule make times differ: a row per client of the first round, or per first flight.
      summary: a row per seed: final, best, mean of the last k evaluated rounds, rounds and bytes to the target.
      timing: a row per seed and evaluated round: what may differ between two equal runs.
      scenario: the resolved scenario, every default filled in.
      method: what stands in the column of that name.
      status: `done`, `diverged`, `stopped`, or `not_run`: no round was aggregated.
      reasons: why, for every seed that did not end as `done`.
      notes: what to know of seeds that did: a loss that grows without bound.
      experiment: what was built from the scenario: plans, start models, the program.
      records: the rows behind the frames, by their names.
      who: first columns of every row.

    >>> import fedsim
    >>> tiny = {"name": "tiny", "rounds": 2, "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5}}
    >>> result = fedsim.run(tiny, seeds=[0, 1])
    >>> result.rounds.pivot(index="round", columns="seed", values="test_accuracy").shape
    (3, 2)
    >>> result.model(seed=1)["W"].shape
    (20, 10)
    """

    def __init__(self, experiment: Experiment, who: dict[str, Any]):
        self.experiment, self.who = experiment, who
        self.scenario: dict[str, Any] = experiment.scenario.resolved()
        self.method: str = who["method"]
        self.status: str = "done"
        self.reasons: dict[int, str] = {}
        self.records = {name: [] for name in ORDER}
        self._models: dict[tuple[str, int], Any] = {}
        self._states: dict[tuple[str, int], Callable[[], State]] = {}

    def __repr__(self) -> str:
        seeds = ", ".join(map(str, self.scenario["seeds"]))
        run = f"{self.method} on {self.scenario['name']}, seeds {seeds}"
        return f"<{run}: {self.status}; see .rounds, .summary, .model()>"

    def model(self, method: str | None = None, seed: int | None = None) -> Any:
        """Final shared parameters as a PyTree of NumPy arrays, of the form that the model's `init` gives.

        Args:
          method: as in the `method` column; may be left out where there is one.
          seed: may be left out where there is one.

        Returns:
          The parameters; what a model keeps beside them, such as running averages, is in the file that `out=` writes.

        Raises:
          KeyError: when that run is not part of the result.
        """
        return self._one(self._models, method, seed)["params"]

    def state(self, method: str | None = None, seed: int | None = None) -> State:
        """What server and clients remember at the end, by the names of the papers.

        `["server"]`: the method's shared section (SCAFFOLD's `c`) and the named states of optimisers (`m`, `v`, `trace`,
        ...). `["client"]`: the clients' memory (`c_i`), stacked `[N, ...]` in the order of ids; a client that never took
        part has the row it would start with.

        Args:
          method: as in the `method` column; may be left out where there is one.
          seed: may be left out where there is one.

        Returns:
          Both, as PyTrees of NumPy arrays; computed when asked for.

        Raises:
          KeyError: when that run is not part of the result.
        """
        return self._one(self._states, method, seed)()

    @property
    def notes(self) -> dict[int, str]:
        """What a user should know of seeds that ended as `done`: a loss that grows without bound."""
        rounds: dict[int, list[Record]] = {}
        for row in self.records["rounds"]:
            rounds.setdefault(row["seed"], []).append(row)
        notes = {seed: growth(rows) for seed, rows in rounds.items() if seed not in self.reasons}
        return {seed: note for seed, note in notes.items() if note}

    def _one(self, kept: dict[tuple[str, int], Any], method: str | None, seed: int | None) -> Any:
        fitting = [
            value for (m, s), value in kept.items() if method in (None, m) and seed in (None, s)
        ]
        if len(fitting) != 1:
            raise KeyError(
                f"{len(fitting)} runs fit method={method!r}, seed={seed!r}; there are {sorted(kept)}"
            )
        return fitting[0]

    def keep(self, seed: int, journal: Journal, run: Run, numerics: Numerics) -> None:
        """Take over a finished seed.

        Args:
          seed: which.
          journal: its rows.
          run: its final server and memory.
          numerics: the context to compute states in, once they are asked for.
        """
        if run.status != "done":
            self.status, self.reasons[seed] = run.status, run.reason
        for name in ORDER:
            self.records[name] += journal.records.get(name, [])
        self._models[self.method, seed] = jax.tree.map(np.asarray, run.server.shared)
        self._states[self.method, seed] = cache(partial(_state, run, numerics))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tables and models into a folder; every file is whole or as it was before."""
        labels = [self._label(method) for method, _ in self._models]
        self.write(Layout(Path(path), names_of(labels)))

    def write(self, layout: Layout) -> None:
        """Write tables and models where a run directory has them."""
        for name, order in ORDER.items():
            if self.records[name] or name not in OPTIONAL:
                files.write(layout.path / f"{name}.csv", tables.to_csv(self.records[name], order))
        self.write_models(layout)

    def write_models(self, layout: Layout) -> None:
        """Write the final shared variables of every seed."""
        for (method, seed), variables in self._models.items():
            directory.write_model(layout.model(self._label(method), seed), variables)

    def _label(self, method: str) -> str:
        return label_of({**self.who, "method": method})


def _state(run: Run, numerics: Numerics) -> State:
    with numerics():
        return final_state(run)
