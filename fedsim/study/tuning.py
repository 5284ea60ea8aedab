"""Tuning: every method gets the same grid, or one of its own; what it is reported with is chosen on
validation data.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.claims import Sentence, Weight
from fedsim.study.statistics import scored
from fedsim.study.summary import Record, larger_is_better, ran, worst


class Trial(NamedTuple):
    """A method with one of its settings: the first columns of its rows, and two of its tables
    (empty where it failed).
    """

    who: Record
    rounds: Sequence[Record]
    summary: Sequence[Record]


def best_setting(scores: Sequence[np.ndarray], larger_is_better: bool) -> int:
    """Place of the setting with the best mean score over seeds; of equal ones the first.

    Args:
      scores: of every setting, one score per seed; none of them where it failed.
      larger_is_better: of the score.

    >>> best_setting([np.array([0.8, 0.9]), np.array([0.9, 0.8]), np.array([])], larger_is_better=True)
    0
    """
    worst = -np.inf if larger_is_better else np.inf
    means = [float(np.mean(seeds)) if len(seeds) else worst for seeds in scores]
    return int(np.argmax(means) if larger_is_better else np.argmin(means))


def validation_of(metric: str) -> str:
    """The column that a metric on test data is chosen by.

    >>> validation_of("test_accuracy")
    'validation_accuracy'
    """
    return f"validation_{metric.rpartition('_')[2]}"


def tuned(trials: Sequence[Trial], metric: str, score: str) -> tuple[int, list[Record]]:
    """The place of the setting that validation data favour, and the rows of `tuning.csv`.

    Args:
      trials: one method under one variation, with each of its settings.
      metric: on test data.
      score: `final`, `best` or `mean_last_k`.
    """
    better, column = larger_is_better(metric), validation_of(metric)
    validation: list[np.ndarray] = []
    for trial in trials:
        last = {row["seed"]: row.get(column) for row in trial.rounds}
        diverged = {row["seed"]: bool(row["diverged"]) for row in trial.summary if ran(row)}
        values = [last[seed] for seed in diverged]
        validation.append(scored(values, list(diverged.values()), worst(metric)))
    best, rows = best_setting(validation, better), []
    for place, trial in enumerate(trials):
        runs = [row for row in trial.summary if ran(row)]
        test = scored(
            [row[score] for row in runs], [bool(row["diverged"]) for row in runs], worst(metric)
        )
        spreads = {**_spread("validation", validation[place]), **_spread("test", test)}
        rows.append({**trial.who, "metric": column, **spreads, "chosen": int(place == best)})
    return best, rows


def _spread(name: str, values: np.ndarray) -> Record:
    known = len(values) and np.isfinite(values).all()
    sd = float(values.std(ddof=1)) if known and len(values) > 1 else None
    return {f"{name}_mean": float(values.mean()) if len(values) else None, f"{name}_sd": sd}


def sensitivity(row: Record, tuning: Sequence[Record]) -> Record:
    """The setting that a method is reported with, and between which means on test data its settings
    lie.

    Args:
      row: of `compare.csv`: method, and variation where there is one.
      tuning: the rows of `tuning.csv`.
    """
    tried = [
        t for t in tuning if all(t.get(name) == row.get(name) for name in ("method", "variant"))
    ]
    means = [t["test_mean"] for t in tried if t["test_mean"] is not None]
    if not means:
        return {}
    chosen = next(t["tuned"] for t in tried if t["chosen"])
    return {"tuned": chosen, "sensitivity_low": min(means), "sensitivity_high": max(means)}


def settings(tuning: Sequence[Record]) -> list[Sentence]:
    """Which settings were chosen, and how much hangs on them, in a sentence per variation."""
    lines = []
    for variant in dict.fromkeys(row.get("variant", "") for row in tuning):
        rows = [row for row in tuning if row.get("variant", "") == variant]
        start = f"With {variant}, chosen" if variant else "Chosen"
        parts = []
        for row in (row for row in rows if row["chosen"]):
            band = sensitivity(row, rows)
            ends = (
                f"{band['sensitivity_low']:.4g} to {band['sensitivity_high']:.4g}" if band else ""
            )
            parts.append(
                f"{row['method']} {row['tuned']}{f' ({ends} over its settings)' if band else ''}"
            )
        text = f"{start} by {rows[0]['metric'].replace('_', ' ')}: {'; '.join(parts)}."
        lines.append(Sentence(text, Weight.SETTINGS))
    return lines


def edges(tuning: Sequence[Record], paths: Sequence[str]) -> list[Sentence]:
    """Which chosen settings lie at the edge of their grid, and where a better one may be, a
    sentence each.

    A setting is at the edge where its value is the smallest or the largest of three or more numbers
    that the method was tried with, and no setting off that edge did as well. A grid that begins at
    0 has no edge there.

    Args:
      tuning: the rows of `tuning.csv`.
      paths: columns of what was tuned.

    >>> row = lambda lr, mean, chosen=0: {"method": "m", "client.lr": lr, "validation_mean": mean, "chosen": chosen}
    >>> edges([row(0.1, 0.5), row(0.3, 0.6), row(1.0, 0.7, 1)], ["client.lr"])
    ['m is best with client.lr=1.0, the largest of 0.1, 0.3, 1.0: add larger values, a better one
    may lie beyond.']
    """
    lines = []
    for row, path in itertools.product((row for row in tuning if row["chosen"]), paths):
        tried = [
            t for t in tuning if all(t.get(name) == row.get(name) for name in ("method", "variant"))
        ]
        grid = sorted({t[path] for t in tried if _number(t.get(path))})
        if len(grid) < 3 or row[path] not in (grid[0] or None, grid[-1]):
            continue
        if row["validation_mean"] in [t["validation_mean"] for t in tried if t[path] != row[path]]:
            continue
        side, more = ("smallest", "smaller") if row[path] == grid[0] else ("largest", "larger")
        start = f"With {row['variant']}: " if row.get("variant") else ""
        values = ", ".join(map(str, grid))
        chosen = f"{row['method']} is best with {path}={row[path]}, the {side} of {values}"
        text = f"{start}{chosen}: add {more} values, a better one may lie beyond."
        lines.append(Sentence(text, Weight.EDGE))
    return lines


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
