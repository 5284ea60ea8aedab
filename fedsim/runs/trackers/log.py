"""The trackers of a command: which were named, and what each of their runs gets."""

import importlib
import itertools
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fedsim.engine.run import Row
from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.runs.execute import Recording
from fedsim.runs.filenames import Layout, label_of
from fedsim.runs.trackers.mlflow import MLflow
from fedsim.runs.trackers.tensorboard import TensorBoard
from fedsim.runs.trackers.tracked import TrackedRun, Tracker, numbers
from fedsim.runs.trackers.wandb import Wandb
from fedsim.scenario.places import resolved_from

OPTION = "--log-to"
SESSIONS = itertools.count()
TRACKERS: dict[str, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": MLflow,
}
PACKAGES = {
    "tensorboard": ("tensorboardX",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
}
DISCREET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}  # unless the user says otherwise


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
        if name not in TRACKERS:
            raise ScenarioError(
                [Problem("", f"no tracker '{name}'{did_you_mean(name, TRACKERS)}")], OPTION
            )
        if not all(map(_installed, PACKAGES[name])):
            raise ScenarioError(
                [Problem(name, f"is not installed; pip install 'fedsim-jax[{name}]'")], OPTION
            )
    return names


def _installed(package: str) -> bool:
    for name, value in DISCREET.items():
        os.environ.setdefault(name, value)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            module = importlib.import_module(package)
    except ImportError:
        return False
    return module.__file__ is not None  # else a folder of that name, such as wandb leaves behind


class Log:
    """Called with every run whose journal has grown; passes on to the trackers what is new, until it is closed.

    A tracker that fails gets nothing more, with one warning; the run goes on. Runs that have not ended are closed as they are.

    Args:
      names: of the trackers.
      layout: of the run directory.
      resume: whether the command goes on with what is there.
    """

    def __init__(self, names: Sequence[str], layout: Layout, resume: bool):
        self.names, self.layout, self.resume = names, layout, resume
        self.trackers: dict[tuple[str, int], dict[str, Tracker]] = {}
        self.logged: dict[tuple[str, int], int] = {}
        self.failed: set[str] = set()
        self.session = next(SESSIONS)

    def __call__(self, recording: Recording, row: Row | None) -> None:
        who, tables = recording.who, recording.journal.records
        run, rows = (label_of(who), who["seed"]), tables.get("rounds", [])
        if not rows:
            return
        if run not in self.trackers:
            self._begin(*run, {**resolved_from(recording.experiment.scenario), "seed": who["seed"]})
        for name, tracker in self.trackers[run].items():
            for new in rows[self.logged[run] :]:
                values = {name: value for name, value in new.items() if name not in (*who, "round")}
                self._try(name, partial(tracker.log, new["round"], numbers(values)))
        self.logged[run] = max(
            self.logged[run], len(rows)
        )  # a run that is executed once more repeats its rows
        if summary := tables.get("summary"):
            self._end(
                run,
                {
                    f"summary/{n}": v
                    for n, v in summary[-1].items()
                    if n not in who and v is not None
                },
            )

    def close(self) -> None:
        """No run comes any further."""
        for run in self.trackers:
            self._end(run, None)

    def _begin(self, label: str, seed: int, config: dict[str, Any]) -> None:
        command = {"layout": self.layout, "resume": self.resume, "session": self.session}
        tracked = TrackedRun(label=label, seed=seed, config=config, **command)
        begun = {name: self._try(name, partial(TRACKERS[name], tracked)) for name in self.names}
        self.trackers[label, seed] = {name: tracker for name, tracker in begun.items() if tracker}
        self.logged[label, seed] = 0

    def _end(self, run: tuple[str, int], summary: dict[str, Any] | None) -> None:
        for name, tracker in self.trackers[run].items():
            self._try(name, partial(tracker.close, summary))
        self.trackers[run] = {}

    def _try(self, name: str, action: Callable[[], Any]) -> Any:
        if name in self.failed:
            return None
        try:
            with warnings.catch_warnings(action="ignore"):
                return action()
        except Exception as error:
            self.failed.add(name)
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            warnings.warn(f"{OPTION} {name}: {reason}; nothing more goes there", stacklevel=2)
