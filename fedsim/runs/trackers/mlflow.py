"""A run in MLflow."""

import hashlib
import os
import re
import time
from typing import Any

from fedsim.errors import shortened
from fedsim.runs.trackers.tracked import TrackedRun, flat, numbers

SECONDS = 1.0  # between two writes to MLflow, whose database takes 20 ms for one
BATCH = 900  # numbers that are sent to MLflow together; it takes 1000


class MLflow:
    """A run in the experiment of the scenario's name, at MLFLOW_TRACKING_URI, or else in the SQLite file `mlflow.db`."""

    def __init__(self, tracked: TrackedRun):
        from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
        from mlflow.entities import Metric, Param  # pyright: ignore[reportMissingImports]

        self.metric, self.pending, self.sent = Metric, [], time.monotonic()
        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or _database(tracked))
        project = os.environ.get("MLFLOW_EXPERIMENT_NAME") or tracked.config["name"]
        experiment = self.client.get_experiment_by_name(project)
        id = experiment.experiment_id if experiment else self.client.create_experiment(project)
        mark = hashlib.sha256(
            f"{tracked.out.resolve()} {tracked.label} {tracked.seed}".encode()
        ).hexdigest()
        earlier = (
            self.client.search_runs([id], f"tags.`fedsim.run` = '{mark}'") if tracked.resume else []
        )
        if earlier:  # the newest one; what was configured there stays, as MLflow wants it
            self.run = earlier[0].info.run_id
            self.known = self._steps("bytes_up")
            self.client.update_run(self.run, status="RUNNING")
            return
        tags = {"fedsim.run": mark, "fedsim.label": tracked.label}
        self.run, self.known = (
            self.client.create_run(id, tags=tags, run_name=tracked.name).info.run_id,
            set(),
        )
        params = [
            Param(_plain(name), shortened(str(value), 5000))
            for name, value in flat(tracked.config).items()
        ]
        for first in range(0, len(params), 100):  # no more at a time
            self.client.log_batch(self.run, params=params[first : first + 100])

    def _steps(self, name: str) -> set[int]:
        return {metric.step for metric in self.client.get_metric_history(self.run, name)}

    def log(self, step: int, values: dict[str, float]) -> None:
        self.step = step
        if step not in self.known:
            now = int(time.time() * 1000)
            self.pending += [
                self.metric(_plain(name), value, now, step) for name, value in values.items()
            ]
        if len(self.pending) > BATCH or time.monotonic() - self.sent > SECONDS:
            self._send()

    def _send(self) -> None:
        if self.pending:
            self.client.log_batch(self.run, metrics=self.pending)
        self.pending, self.sent = [], time.monotonic()

    def close(self, summary: dict[str, Any] | None) -> None:
        self._send()
        if summary:
            self.known = self._steps("summary/k")
            self.log(self.step, numbers(summary))
            self._send()
            for name in summary.keys() - numbers(summary).keys():
                self.client.set_tag(self.run, _plain(name), str(summary[name]))
        self.client.set_terminated(self.run, "FINISHED" if summary else "KILLED")


def _database(tracked: TrackedRun) -> str:
    """Address of the local database; another one for every command, since MLflow never lets go of a file it has opened."""
    file = str(tracked.out.resolve() / "mlflow.db")
    if re.search("[?#%]", file):
        raise ValueError(f"no address can be made of {file}; choose an --out without ?, # and %")
    return f"sqlite:///{file}?cached_statements={128 + tracked.session}"


def _plain(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w\-./: ]", "_", name)
