"""The result of a scenario: frames, models and states, and how they become files."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import jax
import numpy as np
import pandas as pd

from fedsim.assemble import Experiment
from fedsim.assemble.experiment import numerics as numerics_of
from fedsim.assemble.fields import first_answer
from fedsim.disk import files, tables
from fedsim.disk.tables import Record
from fedsim.engine.final import final_state, final_variables
from fedsim.engine.outputs import outputs
from fedsim.engine.run import WITH_RESULT, Run
from fedsim.installed import offered
from fedsim.runs import directory
from fedsim.runs.filenames import RunFiles, label_of, names_of
from fedsim.runs.journal import Journal
from fedsim.runs.lock import held
from fedsim.study.guessing import chance_note
from fedsim.study.summary import growth

if TYPE_CHECKING:
    from fedsim.report.figures.shown import ShownFigure


def _tables() -> dict[str, Sequence[str]]:
    """The tables of a run and their columns, those of fields among them."""
    columns: dict[str, Sequence[str]] = {
        "rounds": tables.ROUNDS,
        "clients": tables.CLIENTS,
        "partition": tables.PARTITION,
        "summary": tables.SUMMARY,
        "timing": tables.TIMING,
    }
    names = list(columns)
    for each in tables.OF_FIELDS:
        if each.table:
            names.insert(tables.behind(names, each.after), each.table)
    return {name: {**columns, **tables.TABLES_OF_FIELDS}[name] for name in names}


TABLE_COLUMNS = _tables()
# Tables that are written only where they have rows.
OPTIONAL_TABLES = tuple(name for name in TABLE_COLUMNS if name in tables.TABLES_OF_FIELDS)
# Tables that are written even without rows.
WRITTEN = (*(name for name in TABLE_COLUMNS if name not in OPTIONAL_TABLES), "compare")

State = dict[str, dict[str, Any]]

# The context of a scenario's float types, threads and devices.
Numerics = Callable[[], AbstractContextManager[list]]


class Frame:
    """An attribute of a result: the frame of its name."""

    def __init__(self, table: str = ""):
        self.table = table

    def __set_name__(self, owner: type, name: str) -> None:
        self.table = self.table or name

    @overload
    def __get__(self, result: None, owner: type) -> "Frame": ...

    @overload
    def __get__(self, result: "Tables", owner: type) -> pd.DataFrame: ...

    def __get__(self, result: "Tables | None", owner: type) -> "Frame | pd.DataFrame":
        if result is None:  # asked of the class, as `help` does
            return self
        return result.frame(self.table)


class Tables:
    """The frames that runs and comparisons have in common.

    Attributes:
      records: the rows of the frames by name.
    """

    records: dict[str, list[Record]]
    status: str
    reasons: Mapping[Any, str]  # by seed, or by label of a run

    rounds = Frame()
    clients = Frame()
    partition = Frame()
    summary = Frame()
    timing = Frame()

    def order(self, name: str) -> Sequence[str]:
        """The columns of a table in order."""
        return TABLE_COLUMNS[name]

    def frames(self) -> dict[str, pd.DataFrame]:
        """All frames by name; optional ones only where they have rows."""
        frames = {}
        for name, rows in self.records.items():
            if rows or name not in OPTIONAL_TABLES:
                frames[name] = self.frame(name)
        return frames

    def plot(self, picture: str = "curves") -> "ShownFigure":
        """Draw a picture as it is in the folder `figures` of a run directory.

        Args:
          picture: the name of its file without an ending: `curves`, `partition`; of a comparison
            also `differences`, and more where there is something to see.

        Returns:
          A matplotlib figure, which a notebook shows; its axes are `.axes`, and `.savefig(path)`
          writes it.

        Raises:
          ValueError: where there is no such picture, with the names of those that there are.
        """
        from fedsim.report.derived import figure_of

        return figure_of(self.frames(), self._shown_record(), picture)

    # A type checker that saw this function would accept any name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say where a column is that is asked for as an attribute."""
            for methods in offered("RESULT", "METHODS"):
                if name in methods and isinstance(self, Result):
                    return partial(methods[name], self)
            text = f"a {type(self).__name__} has no attribute {name!r}"
            frames = vars(self).get("records", {})
            for frame in ("summary", "rounds", "compare"):
                if name.startswith("_") or frame not in frames:
                    continue
                columns = [c for c in self.order(frame) if c == name or c.endswith(f"_{name}")]
                if columns:
                    raise AttributeError(f"{text}; write .{frame}[{columns[0]!r}]")
            raise AttributeError(text)

    def _shown_record(self) -> dict[str, Any]:
        """What pictures and notebooks show, with the keys of `run.json`."""
        raise NotImplementedError

    def frame(self, name: str) -> pd.DataFrame:
        """One frame."""
        return tables.frame(self.records[name], self.order(name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tables and models into a folder; a file is replaced as a whole or not at all.

        The folder is made if there is none.

        Raises:
          DirectoryError: when it cannot be written.
          LockedError: when another process is writing there.
        """
        with held(Path(path)):
            self.write(RunFiles(Path(path), names_of(self._labels())))

    def write(self, run_files: RunFiles) -> None:
        """Write tables and models; an optional table that has no rows any more is deleted."""
        for name, rows in self.records.items():
            path = run_files.path / f"{name}.csv"
            if rows or name in WRITTEN:
                files.write(path, tables.to_csv(rows, self.order(name)))
            else:
                files.remove(path)
        self.write_models(run_files)

    def write_models(self, run_files: RunFiles) -> None:
        """Write the final shared variables of every run."""
        raise NotImplementedError

    def _labels(self) -> list[str]:
        """The labels of all runs."""
        raise NotImplementedError


for _name in OPTIONAL_TABLES:
    setattr(Tables, _name, Frame(_name))


class Result(Tables):
    """The result of a scenario, as `fedsim.run` returns it: frames ready to plot, models, states.

    Attributes:
      rounds: a row per seed and evaluated round, as in `rounds.csv`; bytes and virtual seconds are
        cumulative.
      clients: a row per seed and client: samples, classes, rounds joined, and scores of the final
        model on the client's samples.
      clusters: of methods with clusters, a row per client and round in which its model changed.
      partition: a row per client and label (and seed, where there are several): who holds what.
      staleness: a row per seed and age of a message, of an asynchronous schedule: how many messages
        had that age.
      machines: a row per client of the first round, or per first flight, where machines or a
        schedule make times differ.
      canaries: a row per seed and canary of `privacy.audit`: whether it took part, and how much of
        it seems to be in the aggregates.
      summary: a row per seed: final score, best score, mean over the last k evaluated rounds,
        rounds and bytes to the target.
      timing: a row per seed and evaluated round: what may differ between two equal runs.
      scenario: the resolved scenario, every default filled in.
      method: the content of the `method` column.
      status: `done`, `diverged`, `stopped`, or `not_run`: no round was aggregated.
      reasons: why, for every seed that did not end as `done`.
      notes: what to know of seeds that did: a loss that grows without bound, an accuracy that
        guessing would have, too.
      experiment: what was built from the scenario: plans, start models, the program.
      records: the rows of the frames by name.
      who: the first columns of every row.

    >>> import fedsim
    >>> data = {"kind": "gaussian_blobs", "samples": 300, "clients": 5}
    >>> result = fedsim.run({"name": "tiny", "rounds": 2, "data": data}, seeds=[0, 1])
    >>> result.rounds.pivot(index="round", columns="seed", values="test_accuracy").shape
    (3, 2)
    >>> result.model(seed=1)["W"].shape
    (20, 10)
    """

    def __init__(self, experiment: Experiment, who: dict[str, Any]):
        self.experiment = experiment
        self.who = who
        self.scenario: dict[str, Any] = experiment.scenario.resolved()
        self.method: str = who["method"]
        self.status: str = "done"
        self.reasons: dict[int, str] = {}
        self.records = {name: [] for name in TABLE_COLUMNS}

        self._runs: dict[int, PlayedRun] = {}  # by seed

    def __repr__(self) -> str:
        seeds = ", ".join(map(str, self.scenario["seeds"]))
        run = f"{self.method} on {self.scenario['name']}, seeds {seeds}"
        return f"<{run}: {self.status}; see .rounds, .summary, .model()>"

    def _repr_html_(self) -> str:
        """The result in a notebook: a sentence, the scores of every seed, small curves."""
        from fedsim.report.notebook import html_of_run

        return html_of_run(self.frames(), self._shown_record())

    def _shown_record(self) -> dict[str, Any]:
        """What pictures and notebooks show, with the keys of `run.json`."""
        return {
            "scenario": self.scenario,
            "status": self.status,
            "reasons": self.reasons,
            "notes": self.notes,
        }

    def model(
        self,
        method: str | None = None,
        seed: int | None = None,
        client: int | None = None,
        merged: bool = False,
    ) -> Any:
        """Final parameters as a PyTree of NumPy arrays, structured as the model's `init` gives it.

        Args:
          method: as in the `method` column; may be left out where there is only one.
          seed: may be left out where there is only one.
          client: the number of a client, whose own model is returned, or that of its cluster: the
            one behind its `personal_accuracy` in `clients.csv`.
          merged: merge an adapter into its weights: the structure is that of the model without it.

        Returns:
          The parameters; of methods with clusters those of all models `[k, ...]`. What else a model
          has, such as running averages, `variables` returns.

        Raises:
          KeyError: when that run is not part of the result.
          ValueError: when there is no such client, clients have no models of their own, or the
            adapter has no weights that could be merged.
        """
        params = self.variables(method, seed, client)["params"]
        if not merged:
            return params
        model = self.experiment.model
        with numerics_of(self.experiment.scenario):
            found = first_answer(lambda field: field.merged(params, model))
            return params if found is None else jax.tree.map(np.asarray, found)

    def variables(
        self, method: str | None = None, seed: int | None = None, client: int | None = None
    ) -> Any:
        """Final `params`, and what else a model has: `stats`, such as running averages.

        Args:
          method: as of `model`.
          seed: as of `model`.
          client: as of `model`.

        Raises:
          KeyError: when that run is not part of the result.
          ValueError: when there is no such client, or clients have no models of their own.
        """
        if client is None:
            return self._only(method, seed).variables
        return self._only(method, seed).of_client(client)

    def predict(
        self,
        x: Any,
        method: str | None = None,
        seed: int | None = None,
        client: int | None = None,
    ) -> np.ndarray:
        """What the final model says of new samples.

        Args:
          x: samples `[n, ...]`, as the scenario's data source has them: features are filled in and
            brought to one scale where the scenario does so (`missing`, `standardize`). Of a
            DataFrame, columns are looked up by name, in any order; the target may be among them.
          method: as in the `method` column; may be left out where there is only one.
          seed: may be left out where there is only one.
          client: the number of a client, whose own model is asked, as in `model`. With `statistics:
            client` its features are filled in and scaled as its own are, also under methods whose
            clients have no model; left out: by the statistics of all clients.

        Returns:
          A score of each class `[n, C]`, before the softmax, so that `.argmax(1)` are the labels;
          of tokens `[n, T, C]`; where the model predicts numbers, these.

        Raises:
          KeyError: when that run is not part of the result.
          ValueError: for samples of another shape or type, naming columns that are missing or
            unknown, and blanks that nothing fills; and where there is no such model.

        >>> import fedsim
        >>> data = {"kind": "gaussian_blobs", "samples": 300, "clients": 5}
        >>> result = fedsim.run({"name": "tiny", "rounds": 2, "data": data})
        >>> new_samples = result.experiment.plans[0].federation.test.x[:3]
        >>> result.predict(new_samples).argmax(1).shape
        (3,)
        """
        return self._only(method, seed).outputs(x, client)

    def state(self, method: str | None = None, seed: int | None = None) -> State:
        """The final state of server and clients, by the names that the papers use.

        `["server"]`: the method's shared section (SCAFFOLD's `c`) and the named states of
        optimisers (`m`, `v`, `trace`, ...). `["client"]`: the clients' memory (`c_i`), stacked
        `[N, ...]` in the order of ids; a client that never took part has the row that it would
        start with.

        Args:
          method: as in the `method` column; may be left out where there is only one.
          seed: may be left out where there is only one.

        Returns:
          Both, as PyTrees of NumPy arrays; computed by the first call.

        Raises:
          KeyError: when that run is not part of the result.
        """
        return self._only(method, seed).state

    @property
    def notes(self) -> dict[int, str]:
        """What to know of seeds that ended as `done`: a growing loss, a score of guessing."""
        rounds: dict[int, list[Record]] = {}
        for row in self.records["rounds"]:
            rounds.setdefault(row["seed"], []).append(row)
        notes = {}
        for seed, rows in rounds.items():
            if seed not in self.reasons:
                note = growth(rows) or self._chance_note(seed)
                if note:
                    notes[seed] = note
        return notes

    def _chance_note(self, seed: int) -> str:
        """Whether a seed's final accuracy is that of guessing, in a sentence."""
        run = next((row for row in self.records["summary"] if row["seed"] == seed), {})
        partition = self.partition
        if "seed" in partition:
            partition = partition.loc[partition["seed"] == seed]
        return chance_note(run, partition)

    def _only(self, method: str | None, seed: int | None) -> "PlayedRun":
        """The one run that fits a method and a seed."""
        fits = [run for number, run in self._runs.items() if seed in (None, number)]
        if method not in (None, self.method):
            fits = []
        if len(fits) != 1:
            known = [(self.method, number) for number in sorted(self._runs)]
            raise KeyError(
                f"{len(fits)} runs fit method={method!r}, seed={seed!r}; there are {known}"
            )
        return fits[0]

    def add_run(self, seed: int, journal: Journal, run: Run, numerics: Numerics) -> None:
        """Add a run that has ended."""
        if run.status not in WITH_RESULT:
            self.status = run.status
            self.reasons[seed] = run.reason
        for name in TABLE_COLUMNS:
            self.records[name] += journal.records.get(name, [])
        self._runs[seed] = PlayedRun(run, numerics)

    def write_models(self, run_files: RunFiles) -> None:
        """Write the final shared variables of every seed."""
        for seed, run in self._runs.items():
            directory.write_model(run_files.model(label_of(self.who), seed), run.variables)

    def _labels(self) -> list[str]:
        return [label_of(self.who)]


class PlayedRun:
    """A run that has ended; what is asked of it later is computed in its numerics."""

    def __init__(self, run: Run, numerics: Numerics):
        self.run = run
        self.numerics = numerics
        self.variables = final_variables(run)

    @cached_property
    def state(self) -> State:
        """The final state of server and clients."""
        with self.numerics():
            return final_state(self.run)

    def of_client(self, client: int) -> Any:
        """A client's own variables."""
        self._require_client(client)
        with self.numerics():
            return final_variables(self.run, client)

    def outputs(self, x: Any, client: int | None) -> np.ndarray:
        """The outputs of the final model, or of a client's own."""
        if client is not None:
            self._require_client(client)
        with self.numerics():
            return outputs(self.run, x, client)

    def _require_client(self, client: int) -> None:
        N = self.run.plan.federation.unpooled.N
        if not 0 <= client < N:
            raise ValueError(f"client {client}: the clients are 0 to {N - 1}")
