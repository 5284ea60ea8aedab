"""What one run came to: its line of `summary.csv`, from its rounds and its clients."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Record = dict[str, Any]
WORDS = {"r2": "R²", "mae": "MAE"}  # of metrics that are no words themselves
SCORES = ("final", "best", "mean_last_k")  # columns of `summary.csv` that runs are compared by
NOT_RUN = "not_run"  # the status of a run in which no round was aggregated
WITHOUT_SCORE = ("failed", NOT_RUN)
TO_TARGET = ("rounds_to_target", "bytes_to_target", "virtual_seconds_to_target")
GROWN = 1000  # times the first loss: a run that ends there, with its largest one, says so


def larger_is_better(metric: str) -> bool:
    """Whether more of a metric is better: of accuracies and R²; of losses, errors and an attack's success less is.

    >>> [larger_is_better(name) for name in ("test_accuracy", "test_r2", "test_mae", "validation_loss", "attack_success")]
    [True, True, False, False, False]
    """
    return not metric.endswith(("loss", "mae", "attack_success"))


def is_share(metric: str) -> bool:
    """Whether a metric lies between 0 and 1."""
    return metric.endswith(("accuracy", "attack_success"))


def in_words(metric: str) -> str:
    """A metric as it is called in sentences and tables.

    >>> in_words("test_accuracy"), in_words("test_r2"), in_words("validation_mae")
    ('test accuracy', 'test R²', 'validation MAE')
    """
    return " ".join(WORDS.get(part, part) for part in metric.split("_"))


def worst(metric: str) -> float:
    """The worst value of a metric, which a run that diverged counts as.

    >>> [worst(name) for name in ("test_accuracy", "test_r2", "test_mae", "test_loss", "attack_success")]
    [0.0, -inf, inf, inf, 1.0]
    """
    if larger_is_better(metric):
        return -math.inf if metric.endswith("r2") else 0.0
    return 1.0 if is_share(metric) else math.inf


def ran(row: Record) -> bool:
    """Whether a row of `summary.csv` is of a run that can be compared: it did not fail, and aggregated a round.

    >>> [ran(row) for row in ({}, {"status": None}, {"status": "failed"}, {"status": "not_run"})]
    [True, True, False, False]
    """
    return row.get("status") not in WITHOUT_SCORE


def summarise(
    rounds: Sequence[Record], metric: str, last: int, target: float | None, status: str, reason: str
) -> Record:
    """One run's line of `summary.csv`; a run that diverged has no score to end with, one that has not run has none at all.

    Args:
      rounds: its evaluated rounds, as in `rounds.csv`.
      metric: as in the scenario.
      last: evaluated rounds that `mean_last_k` is over, at most.
      target: of the metric, where one is set.
      status: how the run ended.
      reason: why, where it did not end as `done`.
    """
    if not any(row.get(metric) is not None for row in rounds):
        metric = "test_loss" if any("test_loss" in row for row in rounds) else "train_loss"
    known = [row for row in rounds if row.get(metric) is not None]
    values = [row[metric] for row in known]
    finite = [value for value in values if not math.isnan(value)]
    tail, diverged = values[-last:], status == "diverged"
    rising = larger_is_better(metric)
    arrives = lambda value: target is not None and (value >= target if rising else value <= target)
    arrival = next((row for row in known if arrives(row[metric])), None)
    line = {
        "metric": metric,
        "final": values[-1] if values and not diverged else None,
        "best": (max if rising else min)(finite) if finite else None,
        "mean_last_k": sum(tail) / len(tail) if tail and not diverged else None,
        "k": len(tail),
        "rounds_to_target": arrival["round"] if arrival else None,
        "bytes_to_target": arrival["bytes_up"] + arrival["bytes_down"] if arrival else None,
        "virtual_seconds_to_target": arrival["virtual_seconds"] if arrival else None,
        "diverged": int(diverged),
        **({"reason": reason} if reason else {}),
    }
    if status == NOT_RUN:  # what was evaluated is the start model
        line |= {**dict.fromkeys((*SCORES, *TO_TARGET)), "status": status}
    return line


def median_to_target(runs: Sequence[Record], column: str) -> tuple[float, int]:
    """The median of what runs spent until the target, and how many reached it; of one that did not it is without bound.

    Args:
      runs: rows of `summary.csv`.
      column: of them, such as `bytes_to_target`.

    >>> median_to_target([{"rounds_to_target": 5}, {"rounds_to_target": 9}, {"rounds_to_target": None}], "rounds_to_target")
    (9.0, 2)
    """
    known = [float(run[column]) for run in runs if run.get(column) is not None]
    values = sorted([*known, *[math.inf] * (len(runs) - len(known))])
    middle = len(values) // 2
    return (values[middle] + values[-middle - 1]) / 2, len(known)


def growth(rounds: Sequence[Record]) -> str:
    """A sentence where the loss of a run grew more than GROWN-fold and was at its largest in the end; else nothing.

    >>> growth([{"round": 0, "test_loss": 2.0}, {"round": 9, "test_loss": 5e6}])
    'test_loss grew from 2 to 5e+06 in round 9, its largest value: the run grows without bound'
    """
    name = "test_loss" if any("test_loss" in row for row in rounds) else "train_loss"
    known = [row for row in rounds if row.get(name) is not None]
    values = [row[name] for row in known]
    if len(values) < 2 or not 0 < GROWN * values[0] < values[-1] or max(values) > values[-1]:
        return ""
    last = f"in round {known[-1]['round']}, its largest value"
    return (
        f"{name} grew from {values[0]:.3g} to {values[-1]:.3g} {last}: the run grows without bound"
    )


def fairness(clients: Record, status: str) -> Record:
    """How evenly the final model serves the clients: deciles, worst and standard deviation of their accuracies.

    Every client with samples counts the same, however many it has; empty where there is no accuracy, and for a run that
    has not run, whose clients were scored with the start model.

    Args:
      clients: rows of `clients.csv`, stacked.
      status: of the run.
    """
    if status == NOT_RUN:
        return {}
    known = np.array(
        [value for value in clients.get("global_accuracy", ()) if value is not None], float
    )
    if not len(known):
        return {}
    deciles = np.quantile(known, np.arange(1, 10) / 10).tolist()
    spread = {f"client_accuracy_p{10 * (i + 1)}": value for i, value in enumerate(deciles)}
    return {
        **spread,
        "client_accuracy_worst": float(known.min()),
        "client_accuracy_std": float(known.std()),
    }
