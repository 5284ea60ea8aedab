"""What came out of a scenario: frames, models and states, and how they become files."""

import re
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from fedsim.build import Experiment
from fedsim.data import Federation
from fedsim.disk import files
from fedsim.disk import tables as frames
from fedsim.engine.final import client_scores, final_state
from fedsim.engine.run import Run
from fedsim.runs import directory
from fedsim.runs.journal import Journal
from fedsim.study import label_skew as holdings

PLAIN = re.compile(r"\w+(\(\w+=[\w.]+(,\w+=[\w.]+)*,?\))?", re.ASCII)  # labels whose slugs differ when they do
LISTED = 100_000  # clients up to which tables list all
ORDER = {
    "rounds": frames.ROUNDS,
    "clients": frames.CLIENTS,
    "partition": frames.PARTITION,
    "summary": frames.SUMMARY,
    "timing": frames.TIMING,
}


class Tables:
    """The frames that runs and comparisons share; whoever inherits says how a table becomes a frame."""

    def _frame(self, name: str) -> pd.DataFrame:
        raise NotImplementedError

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
    def summary(self) -> pd.DataFrame:
        return self._frame("summary")

    @property
    def timing(self) -> pd.DataFrame:
        return self._frame("timing")


class Result(Tables):
    """What came out of a scenario, as `fedsim.run` returns it: frames ready to plot, models, states.

    Attributes:
      rounds: a row per seed and evaluated round, as in `rounds.csv`; bytes and virtual seconds are cumulative.
      clients: a row per seed and client: samples, classes, rounds joined, the final model on its own samples.
      partition: a row per client and label, and per seed where there are several: who holds what.
      summary: a row per seed: final, best, mean of the last k evaluated rounds, rounds and bytes to the target.
      timing: a row per seed and evaluated round: what may differ between two equal runs.
      scenario: the resolved scenario, every default filled in.
      method: what stands in the column of that name.
      status: `done`, `diverged` or `stopped`.
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
        self.records: dict[str, list[frames.Record]] = {name: [] for name in ORDER}
        self._models: dict[tuple[str, int], Any] = {}
        self._states: dict[tuple[str, int], Callable[[], Any]] = {}

    def __repr__(self) -> str:
        seeds = ", ".join(map(str, self.scenario["seeds"]))
        return (
            f"<{self.method} on {self.scenario['name']}, seeds {seeds}: {self.status}; see .rounds, .summary, .model()>"
        )

    def _frame(self, name: str) -> pd.DataFrame:
        return frames.frame(self.records[name], ORDER[name])

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

    def state(self, method: str | None = None, seed: int | None = None) -> dict[str, dict[str, Any]]:
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
        rows: dict[int, list[frames.Record]] = {}
        for record in self.records["rounds"]:
            rows.setdefault(record["seed"], []).append(record)
        notes = {seed: frames.growth(lines) for seed, lines in rows.items() if seed not in self.reasons}
        return {seed: note for seed, note in notes.items() if note}

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
        self._models[self.method, seed] = jax.tree.map(np.asarray, run.server.shared)
        self._states[self.method, seed] = scoped(partial(final_state, run))

    def save(self, path: Path) -> None:
        """Write tables and models; every file is whole or as it was before."""
        for name, order in ORDER.items():
            files.write(path / f"{name}.csv", frames.to_csv(self.records[name], order))
        self.save_models(path)

    def save_models(self, path: Path) -> None:
        """Write the final shared variables of every seed."""
        for (method, seed), variables in self._models.items():
            label = label_of({**self.who, "method": method})
            directory.write_model(path / f"model.{slug(label)}.{seed}.safetensors", variables)


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
    line = frames.summarise(rows, evaluate.metric, evaluate.last, evaluate.target, run.status, run.reason)
    clients = _clients(run)
    journal.add("summary", {**who, **line, **frames.fairness(clients)})
    journal.add("clients", {**who, **clients})
    seed = {"seed": who["seed"]} if several else {}
    journal.add("partition", {**seed, **_partition(run.plan.federation, run.joined)})


def label_of(who: dict[str, Any]) -> str:
    """Method, variant and what was tuned, as one label.

    >>> label_of({"method": "median", "variant": "cohort.size=5"}), label_of({"method": "median"})
    ('median cohort.size=5', 'median')
    """
    return " ".join(who[name] for name in ("method", "variant", "tuned") if who.get(name))


def slug(label: str) -> str:
    """A label as part of a file name; where another label could give the same, with a hash of it.

    >>> slug("fedprox(mu=0.1)"), slug("fedprox(mu=-0.1)")
    ('fedprox-mu-0-1', 'fedprox-mu-0-1-3da1091f')
    """
    text = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")
    return text if PLAIN.fullmatch(label) else f"{text[:80]}-{zlib.crc32(label.encode()):08x}"


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
    listed, held = _listed(f, joined), holdings.tally_of(f)
    return holdings.rows_of(held._replace(clients=listed, counts=held.counts[listed]))


def _listed(f: Federation, joined: np.ndarray) -> np.ndarray:
    """Clients that tables list: all, or of more than LISTED those that ever took part."""
    return np.arange(f.N) if f.N <= LISTED else np.flatnonzero(joined)
