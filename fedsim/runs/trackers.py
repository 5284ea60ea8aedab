"""`--log-to`: the rows of a run go to TensorBoard, wandb or MLflow as well, each through a small sink.

A tracker has one run for every method, variation and seed, named `<label>.<seed>`: the resolved scenario as its
configuration, every evaluated round's numbers at that step, and the numbers of its summary as `summary/<column>`. All of it
is read from the run's journal: live, row by row, or at once where a run ended earlier or in another process. So a run that
goes on is told from its first row again, and what a tracker has already is replaced (TensorBoard, wandb offline) or
skipped (MLflow, wandb online).
"""

import contextlib
import importlib
import itertools
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedsim.build import Experiment
from fedsim.disk.tables import Record
from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.runs.result import label_of
from fedsim.runs.sinks import MLflow, Sink, Start, TensorBoard, Wandb, numbers

OPTION = "--log-to"
SESSIONS = itertools.count()
SINKS: dict[str, Callable[[Start], Sink]] = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": MLflow}
PACKAGES = {"tensorboard": ("tensorboardX",), "wandb": ("wandb",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
DISCREET = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"}  # unless the user says otherwise


def named(log_to: str | Sequence[str], out: Any) -> list[str]:
    """The trackers that were asked for, ready to be used.

    Raises:
      ScenarioError: for one that is not known or not installed, or where there is no run directory for its files.
    """
    written = log_to.split(",") if isinstance(log_to, str) else log_to
    names = list(dict.fromkeys(name.strip() for name in written if name.strip()))
    if names and out is None:
        raise ScenarioError([Problem(names[0], "needs a run directory; give out=")], OPTION)
    for name in names:
        if name not in SINKS:
            raise ScenarioError([Problem("", f"no tracker '{name}'{did_you_mean(name, SINKS)}")], OPTION)
        if not all(map(_installed, PACKAGES[name])):
            what = f"is not installed; pip install 'fedsim-jax[{name}]'"
            raise ScenarioError([Problem(name, what)], OPTION)
    return names


def _installed(package: str) -> bool:
    for name, value in DISCREET.items():
        os.environ.setdefault(name, value)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            found = importlib.import_module(package)
    except ImportError:
        return False
    return found.__file__ is not None  # else a folder of that name, such as wandb leaves behind


@contextlib.contextmanager
def telling(names: Sequence[str], out: Path, resume: bool) -> Iterator["Trackers"]:
    """Trackers for the time of a command; runs that have not ended by then are closed as they are."""
    trackers = Trackers(names, out, resume)
    try:
        yield trackers
    finally:
        trackers.close()


class Trackers:
    """What is called with every run whose journal has grown, and tells the trackers what is new.

    A tracker in which something goes wrong is told no more, which is said once; the run goes on.

    Args:
      names: of the trackers.
      out: the run directory.
      resume: whether the command goes on with what is there.
    """

    def __init__(self, names: Sequence[str], out: Path, resume: bool):
        self.names, self.out, self.resume = names, out, resume
        self.sinks: dict[tuple[str, int], dict[str, Sink]] = {}
        self.told: dict[tuple[str, int], int] = {}
        self.silent: set[str] = set()
        self.session = next(SESSIONS)

    def __call__(self, who: dict[str, Any], experiment: Experiment, tables: dict[str, list[Record]]) -> None:
        label, seed = run = label_of(who), who["seed"]
        rows = tables.get("rounds", [])
        if not rows:
            return
        if run not in self.sinks:
            start = Start(
                self.out, label, seed, {**experiment.scenario.resolved(), "seed": seed}, self.resume, self.session
            )
            made = {name: self._tried(name, partial(SINKS[name], start)) for name in self.names}
            self.sinks[run], self.told[run] = {name: sink for name, sink in made.items() if sink}, 0
        for name, sink in self.sinks[run].items():
            for row in rows[self.told[run] :]:
                values = {name: value for name, value in row.items() if name not in (*who, "round")}
                self._tried(name, partial(sink.log, row["round"], numbers(values)))
        self.told[run] = max(self.told[run], len(rows))  # a run that is played once more repeats its rows
        if summary := tables.get("summary"):
            self._close(run, {f"summary/{n}": v for n, v in summary[-1].items() if n not in who and v is not None})

    def close(self) -> None:
        """No run comes any further."""
        for run in self.sinks:
            self._close(run, None)

    def _close(self, run: tuple[str, int], summary: dict[str, Any] | None) -> None:
        for name, sink in self.sinks[run].items():
            self._tried(name, partial(sink.close, summary))
        self.sinks[run] = {}

    def _tried(self, name: str, do: Callable[[], Any]) -> Any:
        if name in self.silent:
            return None
        try:
            with warnings.catch_warnings(action="ignore"):
                return do()
        except Exception as error:
            self.silent.add(name)
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            warnings.warn(f"{OPTION} {name}: {said}; nothing more goes there", stacklevel=2)
