"""Tuning: methods are tried with several settings, one of which is chosen on validation data."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.study.statistics import sample_sd, scored
from fedsim.study.summary import (
    Record,
    as_loss,
    larger_is_better,
    of_clients,
    score_of,
    values_of,
    variation_of,
    with_score,
    worst,
)


class Trial(NamedTuple):
    """A method with one of its settings.

    Attributes:
      key_columns: the first columns of its rows.
      rounds: its rows of `rounds.csv`; empty if it failed.
      rung: the round after which a search with rungs ended its runs; None: there are no rungs.
      bracket: its number in a search with brackets.
    """

    key_columns: Record
    rounds: Sequence[Record]
    summary: Sequence[Record]
    timing: Sequence[Record] = ()
    rung: int | None = None
    bracket: int | None = None


def validation_of(metric: str) -> str:
    """Return the column on validation data that corresponds to a metric on test data.

    Means over clients are on samples of their own that choose, until the run ends.

    >>> validation_of("test_accuracy"), validation_of("personal_accuracy_mean")
    ('validation_accuracy', 'personal_accuracy_mean')
    """
    if of_clients(metric):
        return metric
    return f"validation_{score_of(metric)}"


def tuned(trials: Sequence[Trial], metric: str, score: str) -> tuple[int, list[Record]]:
    """Return the index of the setting that is best on validation data, and rows of `tuning.csv`.

    In a search with rungs, the best is one of those that were played to the last one.
    """
    column = validation_of(metric)
    rising = larger_is_better(metric)
    by_seed = [_validation_scores(trial, column, worst(metric)) for trial in trials]
    last = max(trial.rung or 0 for trial in trials)
    final = [index for index, trial in enumerate(trials) if (trial.rung or 0) == last]
    best = final[_best_of([by_seed[index].values() for index in final], rising)]

    # Scores of different rounds, as at rungs, say nothing about each other.
    best_seeds: list[int | None] = [None if last else 0] * len(trials)
    for seed in sorted(set().union(*by_seed)) if not last else ():
        scores = [[of_trial[seed]] if seed in of_trial else [] for of_trial in by_seed]
        index = _best_of(scores, rising)
        best_seeds[index] = (best_seeds[index] or 0) + 1

    rows = []
    for index, trial in enumerate(trials):
        test_runs = with_score(trial.summary, score)
        test_scores = _scores(test_runs, [run[score] for run in test_runs], worst(metric))
        row = {
            **trial.key_columns,
            "metric": column,
            **_mean_and_sd("validation", by_seed[index]),
            **_mean_and_sd("test", test_scores),
            "local_steps": sum(row["local_steps"] for row in trial.timing),
            "best_seeds": best_seeds[index],
            "chosen": int(index == best),
        }
        if trial.bracket is not None:
            row["bracket"] = trial.bracket
        if trial.rung is not None:
            row["rung"] = trial.rung
        rows.append(row)
    return best, rows


def _best_of(settings: Sequence[Collection[float]], rising: bool) -> int:
    """The index of the setting with the best mean score; the first one of ties.

    Args:
      settings: the scores of every setting; none if it failed.
    """
    means = []
    for scores in settings:
        mean = float(np.mean(list(scores))) if scores else None
        means.append(math.inf if mean is None else as_loss(mean, rising))
    return int(np.argmin(means))


def _validation_scores(trial: Trial, column: str, worst_score: float) -> dict[int, float]:
    """The scores of a trial on validation data at the end of its runs, by seed."""
    last = {row["seed"]: row.get(column) for row in trial.rounds}
    runs = with_score(trial.summary, "final")  # which they have on validation data as well
    return _scores(runs, [last[run["seed"]] for run in runs], worst_score)


def _scores(
    runs: Sequence[Record], values: Sequence[float | None], worst_score: float
) -> dict[int, float]:
    """Scores by seed, in which a diverged run has the worst score."""
    scores = scored(values, [bool(run["diverged"]) for run in runs], worst_score)
    return dict(zip([run["seed"] for run in runs], scores.tolist(), strict=True))


def _mean_and_sd(name: str, scores: Mapping[int, float]) -> Record:
    """The columns `NAME_mean` and `NAME_sd` of scores by seed."""
    values = np.array(list(scores.values()))
    mean = float(values.mean()) if len(values) else None
    return {f"{name}_mean": mean, f"{name}_sd": sample_sd(values)}


def sensitivity(row: Record, tuning: Sequence[Record]) -> Record:
    """Return the chosen setting of a method, what was spent on choosing it, and a range of scores.

    The range is that of all settings' mean scores on test samples, in a search with rungs of those
    that were played as long as the chosen one, where there are several. It is empty if no setting
    has one.
    """
    who = (row.get("method"), variation_of(row))
    tried = [trial for trial in tuning if (trial.get("method"), variation_of(trial)) == who]
    if not values_of(tried, "test_mean"):
        return {}
    chosen = next(trial for trial in tried if trial["chosen"])
    alike = [trial for trial in tried if trial.get("rung") == chosen.get("rung")]
    means = values_of(alike, "test_mean") if len(alike) > 1 else []
    return {
        "tuned": chosen["tuned"],
        "trials": len(tried),
        "tuning_steps": sum(trial["local_steps"] for trial in tried),
        "sensitivity_low": min(means, default=None),
        "sensitivity_high": max(means, default=None),
    }
