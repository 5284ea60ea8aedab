"""A run in MLflow."""

import hashlib
import os
import re
import time
from typing import Any

from fedsim.errors import shortened
from fedsim.tools.trackers.tracked import TrackedRun, flat, numbers

SECONDS = 1.0  # between two writes to MLflow, whose database takes 20 ms for one
MAX_METRICS = 900  # numbers that are sent together; MLflow takes 1000
MAX_PARAMS = 100  # parameters that MLflow takes together
MAX_CHARACTERS = 5000  # of a parameter


class MLflow:
    """A run in the experiment with the scenario's name.

    It is at MLFLOW_TRACKING_URI, or else in the SQLite file `mlflow.db` in the run directory.
    """

    def __init__(self, tracked: TrackedRun):
        from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
        from mlflow.entities import Metric  # pyright: ignore[reportMissingImports]

        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or _database(tracked))
        self.metric = Metric
        self.pending = []  # metrics
        self.sent = time.monotonic()

        experiment = self._experiment_id(tracked)
        path = tracked.out.resolve()
        mark = hashlib.sha256(f"{path} {tracked.label} {tracked.seed}".encode()).hexdigest()
        earlier = []
        if tracked.resume:
            earlier = self.client.search_runs([experiment], f"tags.`fedsim.run` = '{mark}'")
        if earlier:
            # The newest one, whose parameters stay: MLflow does not allow to change them.
            self.run = earlier[0].info.run_id
            self.known_steps = self._steps("bytes_up")
            self.client.update_run(self.run, status="RUNNING")
        else:
            tags = {"fedsim.run": mark, "fedsim.label": tracked.label}
            created = self.client.create_run(experiment, tags=tags, run_name=tracked.name)
            self.run = created.info.run_id
            self.known_steps = set()
            self._log_params(tracked.config)

    def _experiment_id(self, tracked: TrackedRun) -> str:
        """The id of the experiment, which is created where there is none."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or tracked.config["name"]
        experiment = self.client.get_experiment_by_name(name)
        if experiment:
            return experiment.experiment_id
        return self.client.create_experiment(name)

    def _log_params(self, config: dict[str, Any]) -> None:
        """Log the scenario as parameters."""
        from mlflow.entities import Param  # pyright: ignore[reportMissingImports]

        params = []
        for name, value in flat(config).items():
            params.append(Param(_plain(name), shortened(str(value), MAX_CHARACTERS)))
        for first in range(0, len(params), MAX_PARAMS):
            self.client.log_batch(self.run, params=params[first : first + MAX_PARAMS])

    def _steps(self, name: str) -> set[int]:
        """The steps at which a metric has been logged."""
        return {metric.step for metric in self.client.get_metric_history(self.run, name)}

    def log(self, step: int, values: dict[str, float]) -> None:
        self.step = step
        if step not in self.known_steps:
            timestamp = int(time.time() * 1000)  # ms
            for name, value in values.items():
                self.pending.append(self.metric(_plain(name), value, timestamp, step))
        if len(self.pending) > MAX_METRICS or time.monotonic() - self.sent > SECONDS:
            self._send()

    def _send(self) -> None:
        """Send the pending metrics."""
        if self.pending:
            self.client.log_batch(self.run, metrics=self.pending)
        self.pending = []
        self.sent = time.monotonic()

    def close(self, summary: dict[str, Any] | None) -> None:
        self._send()
        if summary:
            metrics = numbers(summary)
            self.known_steps = self._steps("summary/k")
            self.log(self.step, metrics)
            self._send()
            for name in summary.keys() - metrics.keys():
                self.client.set_tag(self.run, _plain(name), str(summary[name]))
        self.client.set_terminated(self.run, "FINISHED" if summary else "KILLED")


def _database(tracked: TrackedRun) -> str:
    """The address of the local database.

    It differs from command to command, since MLflow never closes a file that it has opened.
    """
    file = str(tracked.out.resolve() / "mlflow.db")
    if re.search("[?#%]", file):
        raise ValueError(f"{file} cannot be an address; choose an --out without ?, # and %")
    return f"sqlite:///{file}?cached_statements={128 + tracked.session}"


def _plain(name: str) -> str:
    """A name as MLflow accepts it."""
    return re.sub(r"[^\w\-./: ]", "_", name)
