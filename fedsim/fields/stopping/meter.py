"""Ends a run early: no progress, a target that is reached, or a budget that is spent."""

import math
from typing import Any

from fedsim.disk.checkpoint import Snapshot
from fedsim.disk.scores import larger_is_better
from fedsim.engine.meters.meter import Columns, Meter
from fedsim.errors import Problem, ScenarioError
from fedsim.fields.stopping.keys import Stop, limits_of
from fedsim.scenario.expected import joined

SCORES = ("_accuracy", "_loss", "_mean", "_r2", "_mae")  # end the names of columns that may decide


class Stopping(Meter):
    """Counts the evaluated rounds without progress.

    Attributes:
      best: the best value so far; None: no row had a number.
      best_round: of that value; of the first row, as long as there is none.
      counted: the value that the next one is measured against.
      waited: evaluated rounds since that value.
    """

    reads_rows = True

    def __init__(self, stop: Stop, metric: str):
        self.stop = stop
        self.metric = metric
        self.decides = decides(stop)
        self.best: float | None = None
        self.best_round: int | None = None
        self.counted: float | None = None
        self.waited = 0

    def ends_with(self, row: Columns) -> bool:
        """Count an evaluated round, and return whether it is the last one."""
        self._demand_columns(row)
        value = row.get(self.metric)
        if value is not None and math.isnan(value):
            value = None
        if self.best_round is None or self._is_better(value, self.best, 0.0):
            self.best = value
            self.best_round = row["round"]
        self.waited += 1
        if self._is_better(value, self.counted, self.stop.delta):
            self.counted = value
            self.waited = 0
        return row["round"] >= max(self.stop.after, 1) and self._is_due(value, row)

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint stores."""
        counts = [self.best, self.best_round, self.counted, self.waited]
        return Snapshot({"stopping": counts}, {})

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a checkpoint; a fork of a run that had no `stop` begins to count."""
        if "stopping" in snapshot.values:
            counts = snapshot.values["stopping"]
            self.best, self.best_round, self.counted, self.waited = counts

    def chooses(self, row: Columns) -> bool:
        """Return whether the model of an evaluated round is the best one until then."""
        return self.stop.restore == "best" and row["round"] == self.best_round

    def _demand_columns(self, row: Columns) -> None:
        """Refuse what no row has: some columns are known in a run alone."""
        if self.decides and self.metric not in row:
            scores = [name for name in row if name.endswith(SCORES)]
            text = f"{self.metric} is no column of rounds.csv; write {joined(scores)}"
            raise ScenarioError([Problem("stop.metric", text)])
        for name, _ in limits_of(self.stop.at_most):
            if name != "bytes" and name not in row:
                text = "nobody counts them in this scenario; remove it"
                raise ScenarioError([Problem(f"stop.at_most.{name}", text)])

    def _is_due(self, value: float | None, row: Columns) -> bool:
        if self.stop.patience is not None and self.waited >= self.stop.patience:
            return True
        if self._reaches_target(value):
            return True
        return any(spent(row, name) >= limit for name, limit in limits_of(self.stop.at_most))

    def _is_better(self, value: float | None, than: float | None, delta: float) -> bool:
        """Whether a value is better than another one by more than delta."""
        if value is None or than is None:
            return value is not None
        if larger_is_better(self.metric):
            return value > than + delta
        return value < than - delta

    def _reaches_target(self, value: float | None) -> bool:
        """Whether there is a target, and a value is as good."""
        target = self.stop.target
        if target is None or value is None:
            return False
        return value >= target if larger_is_better(self.metric) else value <= target


def decides(stop: Stop) -> bool:
    """Return whether a metric decides anything: without one, only a budget ends the run."""
    return stop.patience is not None or stop.target is not None or stop.restore == "best"


def spent(row: Columns, name: str) -> float:
    """Return what a run has spent by a row."""
    if name == "bytes":
        return (row["bytes_up"] or 0) + (row["bytes_down"] or 0)
    value: Any = row.get(name)
    return 0.0 if value is None else value


def deciding_metric(stop: Stop, score: str, accurate: bool) -> str:
    """Return the column that decides; by default that of the scenario's metric on validation data.

    Args:
      accurate: whether there is any accuracy; without it the loss decides.

    >>> stop = Stop(patience=3)
    >>> deciding_metric(stop, "test_accuracy", True), deciding_metric(stop, "test_accuracy", False)
    ('validation_accuracy', 'validation_loss')
    """
    if stop.metric is not None:
        return stop.metric
    if score == "test_accuracy" and not accurate:
        score = "test_loss"
    return score.replace("test_", "validation_", 1) if score.startswith("test_") else score
