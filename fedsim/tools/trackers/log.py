"""The trackers of a command: which are asked for, and what each of their runs gets."""

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
from fedsim.runs.execute import JournaledRun
from fedsim.runs.executor import RunKey
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.runs.logs import OPTION, LogOpener
from fedsim.scenario.recorded_paths import resolved_from
from fedsim.tools.trackers.mlflow import MLflow
from fedsim.tools.trackers.tensorboard import TensorBoard
from fedsim.tools.trackers.tracked import TrackedRun, Tracker, numbers
from fedsim.tools.trackers.wandb import Wandb

MAX_CHARACTERS = 200  # of a reason
SESSIONS = itertools.count()  # numbers of the commands in this process
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
DISCREET = {  # unless the user says otherwise
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}


def opener(log_to: str | Sequence[str], out: Any) -> LogOpener:
    """What opens a log for the trackers that a user asks for; see `tracker_names`."""
    return partial(Log, tracker_names(log_to, out))


def tracker_names(log_to: str | Sequence[str], out: Any) -> list[str]:
    """The trackers that a user asks for, whose packages are imported.

    Args:
      log_to: names as a sequence, or separated by commas.
    """
    words = log_to.split(",") if isinstance(log_to, str) else log_to
    names = list(dict.fromkeys(word.strip() for word in words if word.strip()))
    if names and out is None:
        raise ScenarioError([Problem(names[0], "needs a run directory; give out=")], OPTION)
    for name in names:
        if name not in TRACKERS:
            text = f"no tracker '{name}'{did_you_mean(name, TRACKERS)}"
            raise ScenarioError([Problem("", text)], OPTION)
        if not all(map(_is_installed, PACKAGES[name])):
            text = f"is not installed; pip install 'fedsim-jax[{name}]'"
            raise ScenarioError([Problem(name, text)], OPTION)
    return names


def _is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    for name, value in DISCREET.items():
        os.environ.setdefault(name, value)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            module = importlib.import_module(package)
    except ImportError:
        return False
    # A folder of that name, such as wandb leaves behind, is imported as a module without a file.
    return module.__file__ is not None


class Log:
    """A listener that passes new rows of journals on to trackers, until it is closed.

    A tracker that fails gets nothing more, with one warning, and the run continues. Runs that have
    not ended are closed as they are.
    """

    def __init__(self, names: Sequence[str], run_files: RunFiles, resume: bool):
        self.names = names
        self.run_files = run_files
        self.resume = resume
        self.session = next(SESSIONS)
        self.trackers: dict[RunKey, dict[str, Tracker]] = {}  # of every run, by name
        self.logged: dict[RunKey, int] = {}  # rows of every run
        self.failed: set[str] = set()  # trackers

    def __call__(self, journaled: JournaledRun, row: Row | None) -> None:
        del row  # it is in the journal
        who = journaled.who
        run = (label_of(who), who["seed"])
        tables = journaled.journal.records
        rows = tables.get("rounds", [])
        if not rows:
            return
        if run not in self.trackers:
            config = {**resolved_from(journaled.experiment.scenario), "seed": who["seed"]}
            self._begin(run, config)

        for name, tracker in self.trackers[run].items():
            for new in rows[self.logged[run] :]:
                values = {key: value for key, value in new.items() if key not in (*who, "round")}
                self._try(name, partial(tracker.log, new["round"], numbers(values)))
        # A run that is executed once more has its first rows again.
        self.logged[run] = max(self.logged[run], len(rows))

        summary = tables.get("summary")
        if summary:
            entries = {}
            for key, value in summary[-1].items():
                if key not in who and value is not None:
                    entries[f"summary/{key}"] = value
            self._end(run, entries)

    def close(self) -> None:
        """Close all runs, of which there will be no more rows."""
        for run in self.trackers:
            self._end(run, None)

    def _begin(self, run: RunKey, config: dict[str, Any]) -> None:
        """Begin a run in every tracker."""
        label, seed = run
        tracked = TrackedRun(
            run_files=self.run_files,
            label=label,
            seed=seed,
            config=config,
            resume=self.resume,
            session=self.session,
        )
        trackers = {}
        for name in self.names:
            tracker = self._try(name, partial(TRACKERS[name], tracked))
            if tracker:
                trackers[name] = tracker
        self.trackers[run] = trackers
        self.logged[run] = 0

    def _end(self, run: RunKey, summary: dict[str, Any] | None) -> None:
        """End a run in every tracker."""
        for name, tracker in self.trackers[run].items():
            self._try(name, partial(tracker.close, summary))
        self.trackers[run] = {}

    def _try(self, name: str, action: Callable[[], Any]) -> Any:
        """The result of an action of a tracker; None where it has failed before, or fails now."""
        if name in self.failed:
            return None
        try:
            with warnings.catch_warnings(action="ignore"):
                return action()
        except Exception as error:
            self.failed.add(name)
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_CHARACTERS]
            warnings.warn(f"{OPTION} {name}: {reason}; nothing more is logged there", stacklevel=2)
            return None
