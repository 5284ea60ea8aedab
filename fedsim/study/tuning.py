"""Tuning: methods are tried with several settings, one of which is chosen on validation data."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.statistics import scored
from fedsim.study.summary import (
    Record,
    distinct,
    larger_is_better,
    of_clients,
    score_of,
    values_of,
    variation_of,
    with_score,
    worst,
)
from fedsim.study.words import name_and_path, variation_in_words

LISTED_VALUES = 6  # of a grid, in a sentence; of more there are the number and the ends
EDGE_VALUES = 3  # a grid with fewer values has no interior, so every choice is at its edge

AT_EDGE = (
    "{method} is best with the {side} {path} tried, {value} of {values}: "
    "try {direction} values, too."
)
OF_VARIATION = "With {variation}: "


class Trial(NamedTuple):
    """A method with one of its settings.

    Attributes:
      key_columns: the first columns of its rows.
      rounds: its rows of `rounds.csv`; empty if it failed.
      summary: its rows of `summary.csv`; empty if it failed.
      timing: its rows of `timing.csv`; empty if it failed.
      rung: the round after which a search with rungs ended its runs; None: there are no rungs.
      bracket: its number in a search with brackets.
    """

    key_columns: Record
    rounds: Sequence[Record]
    summary: Sequence[Record]
    timing: Sequence[Record] = ()
    rung: int | None = None
    bracket: int | None = None


def best_setting(scores: Sequence[np.ndarray], larger_is_better: bool) -> int:
    """Return the index of the setting with the best mean score over seeds; the first one of ties.

    Args:
      scores: the scores of every setting by seed; empty if it failed.
      larger_is_better: whether a larger score is better.

    >>> scores = [np.array([0.8, 0.9]), np.array([0.9, 0.8]), np.array([])]
    >>> best_setting(scores, larger_is_better=True)
    0
    """
    sign = 1 if larger_is_better else -1
    values = []  # larger is better
    for by_seed in scores:
        value = -np.inf
        if len(by_seed):
            value = sign * float(np.mean(by_seed))
        values.append(value)
    return int(np.argmax(values))


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

    Args:
      trials: one method under one variation, with each of its settings.
      metric: a metric on test data.
      score: one of `SCORES`.
    """
    column = validation_of(metric)
    worst_score = worst(metric)
    by_seed = [_validation_scores(trial, column, worst_score) for trial in trials]
    validation = [np.array([*scores.values()]) for scores in by_seed]
    last = max(trial.rung or 0 for trial in trials)
    final = [index for index, trial in enumerate(trials) if (trial.rung or 0) == last]
    best = final[best_setting([validation[i] for i in final], larger_is_better(metric))]
    best_seeds: Sequence[int | None] = [None] * len(trials)
    if not last:
        best_seeds = _seeds_in_which_best(by_seed, larger_is_better(metric))

    rows = []
    for index, trial in enumerate(trials):
        row = {
            **trial.key_columns,
            "metric": column,
            **_mean_and_sd("validation", validation[index]),
            **_mean_and_sd("test", _test_scores(trial, score, worst_score)),
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


def _seeds_in_which_best(
    by_seed: Sequence[Mapping[int, float]], larger_is_better: bool
) -> list[int]:
    """Under how many seeds each setting is the best one, the first of ties.

    Args:
      by_seed: the scores of every setting, by seed.
      larger_is_better: whether a larger score is better.
    """
    counts = [0] * len(by_seed)
    for seed in sorted(set().union(*by_seed)):
        scores = [np.array([s[seed]] if seed in s else []) for s in by_seed]
        counts[best_setting(scores, larger_is_better)] += 1
    return counts


def _validation_scores(trial: Trial, column: str, worst_score: float) -> dict[int, float]:
    """The scores of a trial on validation data at the end of its runs, by seed.

    Args:
      trial: the trial.
      column: the column of `rounds.csv`.
      worst_score: the score of a diverged run.
    """
    last = {row["seed"]: row.get(column) for row in trial.rounds}
    runs = with_score(trial.summary, "final")  # which they have on validation data as well
    values = [last[run["seed"]] for run in runs]
    scores = scored(values, [bool(run["diverged"]) for run in runs], worst_score)
    return dict(zip([run["seed"] for run in runs], scores.tolist(), strict=True))


def _test_scores(trial: Trial, score: str, worst_score: float) -> np.ndarray:
    """The scores of a trial on test data `[seeds]`; arguments as `_validation_scores`."""
    runs = with_score(trial.summary, score)
    values = [run[score] for run in runs]
    return scored(values, [bool(run["diverged"]) for run in runs], worst_score)


def _mean_and_sd(name: str, values: np.ndarray) -> Record:
    """The columns `NAME_mean` and `NAME_sd` of some scores."""
    mean = None
    sd = None
    if len(values):
        mean = float(values.mean())
    if len(values) > 1 and np.isfinite(values).all():
        sd = float(values.std(ddof=1))
    return {f"{name}_mean": mean, f"{name}_sd": sd}


def sensitivity(row: Record, tuning: Sequence[Record]) -> Record:
    """Return the chosen setting of a method, what was spent on choosing it, and a range of scores.

    The range is that of all settings' mean scores on test samples, in a search with rungs of those
    that were played as long as the chosen one, where there are several. It is empty if no setting
    has one.

    Args:
      row: a row of `compare.csv`: the method, and the variation if there is one.
      tuning: rows of `tuning.csv`.
    """
    tried = _tried_with(row, tuning)
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


def _tried_with(row: Record, tuning: Sequence[Record]) -> list[Record]:
    """The rows of `tuning.csv` that have the method and the variation of a row."""
    who = (row.get("method"), variation_of(row))
    return [trial for trial in tuning if (trial.get("method"), variation_of(trial)) == who]


def edge_lines(
    tuning: Sequence[Record],
    paths: Sequence[str],
    drawn: Collection[tuple[str, str]] = (),
    words: Callable[[str], str] = variation_in_words,
) -> list[str]:
    """Return a sentence for every chosen setting at the edge of its grid: where better ones may be.

    A setting is at the edge if its value is the smallest or the largest of three or more numbers
    that the method was tried with, and no setting off that edge did as well. A grid that begins at
    0 has no edge there.

    Args:
      tuning: rows of `tuning.csv`.
      paths: the paths that were tuned, which are columns.
      drawn: methods and paths with a range, of which `fedsim.study.outer_tenths` says more: the
        first or the last of a few draws is often the best by chance.
      words: returns a variation in words.

    >>> row = {"method": "m", "chosen": 0}
    >>> tuning = [
    ...     {**row, "mu": 0.1, "validation_mean": 0.5},
    ...     {**row, "mu": 0.3, "validation_mean": 0.6},
    ...     {**row, "mu": 1.0, "validation_mean": 0.7, "chosen": 1},
    ... ]
    >>> edge_lines(tuning, ["mu"])
    ['m is best with the largest μ (mu) tried, 1.0 of 0.1, 0.3, 1.0: try larger values, too.']
    """
    lines = []
    chosen = [row for row in tuning if row["chosen"]]
    for row, path in itertools.product(chosen, paths):
        tried = _tried_with(row, tuning)
        grid = sorted(filter(_is_number, distinct(tried, path)))
        side = _edge(row, path, grid, tried)
        if side is None or (row["method"], path) in drawn:
            continue
        direction = "smaller" if side == "smallest" else "larger"
        text = AT_EDGE.format(
            method=row["method"],
            path=name_and_path(path),
            value=row[path],
            side=side,
            values=_in_short(grid),
            direction=direction,
        )
        variation = variation_of(row)
        if variation:
            text = OF_VARIATION.format(variation=words(variation)) + text
        lines.append(text)
    return lines


def _edge(row: Record, path: str, grid: Sequence[Any], tried: Sequence[Record]) -> str | None:
    """The edge of a grid that a chosen setting is at, `smallest` or `largest`; None if at neither.

    Args:
      row: the row of `tuning.csv` of the chosen setting.
      path: the path that was tuned.
      grid: the numbers that were tried, ascending.
      tried: all rows of the method.
    """
    if len(grid) < EDGE_VALUES:
        return None
    value = row[path]
    if value == grid[0] and grid[0] != 0:
        side = "smallest"
    elif value == grid[-1]:
        side = "largest"
    else:
        return None

    for trial in tried:
        if trial[path] != value and trial["validation_mean"] == row["validation_mean"]:
            return None  # as good, and off the edge
    return side


def _in_short(grid: Sequence[Any]) -> str:
    """The values of a grid in a sentence, ascending: `0.1, 0.3, 1.0` or `16 from 0.001 to 0.9`."""
    if len(grid) <= LISTED_VALUES:
        return ", ".join(map(str, grid))
    return f"{len(grid)} from {grid[0]} to {grid[-1]}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
