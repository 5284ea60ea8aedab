"""The result of one run: its row of `summary.csv`, from its rounds and its clients.

The small questions that every table asks of such rows are here too: which metric, which variation,
whether there is a score.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.disk.distribution import distribution
from fedsim.disk.scores import is_share as is_share
from fedsim.disk.scores import larger_is_better as larger_is_better
from fedsim.disk.scores import score_of as score_of
from fedsim.disk.scores import statistic_of
from fedsim.disk.scores import worst as worst
from fedsim.disk.tables import Record
from fedsim.installed import added, modules_with, offered
from fedsim.study.words import variation_in_words
from fedsim.types.client import ALONE

# Columns of `summary.csv` that runs are compared by. `own` is the mean over clients of the final
# model that each would use, its own or else the shared one, on its own test samples.
OF_ROUNDS = ("final", "best", "mean_last_k")
OWN = "own"
SCORES = (*OF_ROUNDS, OWN)
TO_TARGET = ("rounds_to_target", "bytes_to_target", "virtual_seconds_to_target")

NOT_RUN = "not_run"  # the status of a run in which no round was aggregated
WITHOUT_SCORE = ("failed", NOT_RUN)

NOT_FEDERATED = "not_federated"  # the column that marks baselines, and says what they do

# Beginning of a mean over clients -> the models that they are scored by at the end.
MODELS_OF_CLIENTS = {"client": ("global",), "personal": ("personal", "global")}

WORDS = {"r2": "R²", "mae": "MAE"}  # parts of metric names that are not words themselves
for _, words_of_field in added("WORDS"):
    WORDS |= words_of_field
STATISTICS = {  # of a score of all clients, in words
    "mean": "mean {}",
    "samples": "{} by samples",
    "p10": "10th percentile of {}",
    "p50": "median {}",
    "p90": "90th percentile of {}",
    "worst": "worst {}",
    "std": "standard deviation of {}",
}
GROWN = 1000  # a run is reported as growing if its last loss is this many times its first one


def as_loss(value: float, rising: bool) -> float:
    """Return a value as a number that is smaller for better values."""
    return -value if rising else value


def of_clients(metric: str | None) -> tuple[str, ...]:
    """Return the scores of `clients.csv` that one of all clients is made of at the end.

    Nothing for other metrics.
    """
    if metric is None or not statistic_of(metric):
        return ()
    model, _, _ = metric.partition("_")
    return tuple(f"{each}_{score_of(metric)}" for each in MODELS_OF_CLIENTS[model])


def of_own_models(metric: str | None) -> bool:
    """Return whether a metric is a score of all clients, each with its own model."""
    return of_clients(metric)[1:] != ()


def two_halves(metric: str) -> str:
    """Return on which samples the scores of a run are, if these are not the same; else nothing."""
    if not of_clients(metric):
        return ""
    return (
        "The final score is on one half of the clients' test samples; the best and the mean of the "
        "last rounds are on the other half, as the curves."
    )


def in_words(metric: str) -> str:
    """Return the name of a metric in sentences and tables.

    >>> in_words("test_accuracy"), in_words("test_r2"), in_words("client_mae_worst")
    ('test accuracy', 'test R²', 'worst client MAE')
    """
    statistic = statistic_of(metric)
    words = [WORDS.get(part, part) for part in metric.removesuffix(f"_{statistic}").split("_")]
    return STATISTICS.get(statistic, "{}").format(" ".join(words))


def has_score(row: Record, score: str) -> bool:
    """Return whether the run of a row of `summary.csv` has a score; one that diverged has.

    One that failed has none, nor one that idled, with the status `not_run`: it aggregated no round.
    One in which every client trains alone has those of the clients' own models.
    """
    if row.get("status") in WITHOUT_SCORE:
        return False
    if score == OWN:
        return row.get(OWN) is not None or bool(row.get("metric") and row.get("diverged"))
    return not _has_only_own_scores(row)


def with_score(rows: Iterable[Record], score: str) -> list[Record]:
    """Return the rows of `summary.csv` that have a score, as of `has_score`."""
    return [row for row in rows if has_score(row, score)]


def common_score(score: str, *runs: Iterable[Record]) -> str:
    """Return the score by which the runs of methods are compared with each other.

    It is the one that is asked for or, where clients of one of the methods train alone and the
    metric is that of a shared model, `own`: then all are scored on the same samples, those of the
    clients.
    """
    if any(_has_only_own_scores(row) for rows in runs for row in rows):
        return OWN
    return score


def _has_only_own_scores(row: Record) -> bool:
    """Whether a run has no shared model, and its metric is that of one."""
    return row.get(NOT_FEDERATED) == ALONE and not of_own_models(row.get("metric"))


def is_federated(row: Record) -> bool:
    """Return whether the run of a row of `summary.csv` is that of a federated method."""
    return not row.get(NOT_FEDERATED)


def metric_of(runs: Iterable[Record]) -> str:
    """Return the metric that runs are scored by; empty if none of them has one."""
    for run in runs:
        if run.get("metric"):
            return str(run["metric"])
    return ""


def variation_of(row: Record) -> str:
    """Return the variation of a row, its column `variant`; empty if nothing varies."""
    return str(row.get("variant") or "")


def values_of(rows: Iterable[Record], column: str) -> list[Any]:
    """Return the values of a column, without rows in which it is missing or None."""
    return [row[column] for row in rows if row.get(column) is not None]


def distinct(rows: Iterable[Record], column: str) -> list[Any]:
    """Return the different values of a column in the order in which they appear."""
    return list(dict.fromkeys(row.get(column) for row in rows))


def grouped(rows: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    """Return rows by key, keys and rows in the order in which they appear."""
    groups: dict[Any, list[Record]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def summarise(
    rounds: Sequence[Record],
    metric: str,
    last: int,
    target: float | None,
    status: str,
    reason: str,
    not_federated: str = "",
) -> Record:
    """Return the row of `summary.csv` of one run.

    A run that diverged has no score at its end; one that has not run has no score at all, and one
    without a shared model only those of its clients' own models.

    Args:
      metric: the scenario's metric; a loss takes its place if it was never evaluated.
      last: the number of evaluated rounds that `mean_last_k` is the mean of, at most.
    """
    is_evaluated = any(row.get(metric) is not None for row in rounds)
    if not is_evaluated:
        metric = _loss_of(rounds)
    evaluated = [row for row in rounds if row.get(metric) is not None]
    values = [row[metric] for row in evaluated]
    diverged = status == "diverged"
    tail = values[-last:]

    row: Record = {
        "metric": metric,
        "final": None,
        "best": _best(values, metric),
        "mean_last_k": None,
        "k": len(tail),
        "rounds_to_target": None,
        "bytes_to_target": None,
        "virtual_seconds_to_target": None,
        "diverged": int(diverged),
    }
    if values and not diverged:
        row["final"] = values[-1]
        row["mean_last_k"] = sum(tail) / len(tail)

    arrival = None if target is None else _first_at(target, evaluated, metric)
    if arrival is not None:
        row["rounds_to_target"] = arrival["round"]
        if arrival["bytes_up"] is not None:
            row["bytes_to_target"] = arrival["bytes_up"] + arrival["bytes_down"]
        row["virtual_seconds_to_target"] = arrival["virtual_seconds"]

    if rounds and "epsilon" in rounds[-1]:
        row["epsilon"] = rounds[-1]["epsilon"]
    if reason:
        row["reason"] = reason
    if status == NOT_RUN:
        # What was evaluated is the initial model, which is not a result.
        row |= dict.fromkeys((*OF_ROUNDS, *TO_TARGET))
        row["status"] = status
    if not_federated:
        row[NOT_FEDERATED] = not_federated
    if not_federated == ALONE and not (is_evaluated and of_own_models(metric)):
        # The clients' losses are not those of one model.
        row |= dict.fromkeys(("metric", *OF_ROUNDS, *TO_TARGET))
    return row


def _loss_of(rounds: Sequence[Record]) -> str:
    """The loss that was evaluated: on test data if there are any."""
    return "test_loss" if any("test_loss" in row for row in rounds) else "train_loss"


def _best(values: Sequence[float], metric: str) -> float | None:
    """The best value of a metric; None if all are NaN."""
    numbers = [value for value in values if not math.isnan(value)]
    best = max if larger_is_better(metric) else min
    return best(numbers, default=None)


def _first_at(target: float, rounds: Sequence[Record], metric: str) -> Record | None:
    """The first round at which a metric reached its target; None if it never did."""
    rising = larger_is_better(metric)
    wanted = as_loss(target, rising)
    return next((row for row in rounds if as_loss(row[metric], rising) <= wanted), None)


def median_to_target(runs: Sequence[Record], column: str) -> tuple[float, int]:
    """Return the median of what runs spent to reach the target, and how many reached it.

    A run that did not reach it spent an infinite amount.
    """
    spent = [float(value) for value in values_of(runs, column)]
    missing = [math.inf] * (len(runs) - len(spent))
    return statistics.median([*spent, *missing]), len(spent)


def growth(rounds: Sequence[Record]) -> str:
    """Return a sentence if the loss of a run grew more than 1000-fold and was largest at the end.

    Empty otherwise.
    """
    name = _loss_of(rounds)
    evaluated = [row for row in rounds if row.get(name) is not None]
    if len(evaluated) < 2:
        return ""
    losses = [row[name] for row in evaluated]
    first = losses[0]
    last = losses[-1]
    # Negated, so that a NaN among the losses makes no sentence.
    if not 0 < GROWN * first < last or max(losses) > last:
        return ""
    when = f"in round {evaluated[-1]['round']}, its largest value"
    return f"{name} grew from {first:.3g} to {last:.3g} {when}: the run grows without bound"


def findings_of_fields(
    summary: Sequence[Record],
    words: Callable[[str], str] = variation_in_words,
    compared: Sequence[Record] = (),
) -> list[str]:
    """Return what fields say of runs, or of a comparison.

    Args:
      compared: rows of `compare.csv` where the comparison asks, without those of the baseline.
    """
    lines = []
    for module in modules_with("FINDINGS"):
        lines += module.findings(summary, words, compared)
    return lines


def columns_of_fields(tables: Mapping[str, Sequence[Record]], scenario: Record) -> Record:
    """Return what fields add to a row of `summary.csv`."""
    row: Record = {}
    for columns in offered("ENDED", "columns"):
        row |= columns(tables, scenario)
    return row


def columns_of_clients(
    clients: Record, samples: Mapping[str, np.ndarray], status: str, metric: str
) -> Record:
    """Return what the clients' scores at the end add to a row of `summary.csv`.

    A metric that is of all clients has its final score here: while the run lasts, it is on other
    samples, which choose the best round.

    Args:
      samples: that each client is scored on, by the model that is scored.
    """
    columns = fairness_columns(clients, status)
    if status in ("diverged", NOT_RUN):
        return columns
    for name in of_clients(metric):
        scores = clients.get(name, ())
        has_score = np.array([value is not None for value in scores], bool)
        if has_score.any():
            values = np.array([np.nan if value is None else value for value in scores])
            model, _, _ = name.partition("_")
            of_all = distribution(name, values, samples[model] * has_score)
            return {**columns, "final": of_all[f"{name}_{statistic_of(metric)}"]}
    return columns


def own_score(clients: Record, status: str, metric: str) -> Record:
    """Return the score on the clients' own test samples, and its metric, as in `summary.csv`.

    Each client is scored with the final model that it would use, its own or else the shared one,
    and all count the same. Empty for a run without such a score, and for metrics that are no means
    over samples.
    """
    name = score_of(metric)
    if name == "accuracy" and not {"personal_accuracy", "global_accuracy"} & clients.keys():
        # As the metric of a run of models that predict numbers.
        metric, name = "test_loss", "loss"
    own = _mean_of_first(clients, (f"personal_{name}", f"global_{name}"), status)
    return {} if own is None else {"metric": metric, OWN: own}


def _mean_of_first(clients: Record, names: Sequence[str], status: str) -> float | None:
    """The mean over clients of the first column that they have scores in; None if there is none."""
    if status in ("diverged", NOT_RUN):
        return None
    for name in names:
        scores = [value for value in clients.get(name, ()) if value is not None]
        if scores:
            return float(np.mean(scores))
    return None


def fairness_columns(clients: Record, status: str) -> Record:
    """Return how evenly the final model, or each client's own, serves the clients.

    These are columns of `summary.csv`: the deciles, the minimum and the standard deviation of the
    clients' accuracies. Every client with samples counts the same, however many it has. Empty if
    there is no accuracy, and for a run that has not run, whose clients were scored with the initial
    model.
    """
    # Without a shared model, each client has its own.
    scores = clients.get("global_accuracy", clients.get("personal_accuracy", ()))
    values = np.array([value for value in scores if value is not None], float)
    if status == NOT_RUN or not len(values):
        return {}
    shares = range(10, 100, 10)
    deciles = np.quantile(values, np.array(shares) / 100).tolist()
    columns = dict(zip([f"client_accuracy_p{share}" for share in shares], deciles, strict=True))
    columns["client_accuracy_worst"] = float(values.min())
    columns["client_accuracy_std"] = float(values.std())
    return columns
