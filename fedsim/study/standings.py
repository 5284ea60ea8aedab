"""The standing of every method under every variation: its score, its difference to the baseline, and whether it is chance."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.study.pairing import SURE, others, same_runs
from fedsim.study.statistics import differences, scored
from fedsim.study.summary import NOT_RUN, Record, larger_is_better, ran, worst

NEAR_CHANCE, NEAR_SHARE = 0.02, 0.25  # above chance by at most that much, and by at most that share of it


class Standing(NamedTuple):
    """A method under a variation.

    Attributes:
      method: its label.
      mean: of its scores; diverged runs count as the worst there is. None where all of its runs failed or have not run.
      row: of `compare.csv`; None for the baseline.
      better: seeds under which it is better than the baseline.
      tied: seeds under which both have the same score.
      chance: whether its score is about what guessing gives.
      test: what is equal where the scores of method and baseline are the same, as along an axis that neither of them reads.
      not_run: whether no round of any of its runs was aggregated.
    """

    method: str
    mean: float | None
    row: Record | None
    better: int = 0
    tied: int = 0
    chance: bool = False
    test: Hashable = None
    not_run: bool = False

    @property
    def sure(self) -> bool:
        """Whether the exact test tells it from the baseline, after Holm's adjustment."""
        return self.row is not None and self.row["p_adjusted"] is not None and self.row["p_adjusted"] < SURE

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of its difference leaves out 0."""
        low = self.row["ci_low"] if self.row else None
        return self.row is not None and low is not None and (low > 0 or self.row["ci_high"] < 0)

    @property
    def benefit(self) -> float:
        """How much better than the baseline; where that is no number, how often."""
        if self.row is None or not self.row["seeds"]:
            return 0.0
        if self.row["difference"] is None:
            return (self.row["probability_of_improvement"] or 0.5) - 0.5
        return self.row["difference"] if larger_is_better(self.row["metric"]) else -self.row["difference"]

    @property
    def diverged(self) -> bool:
        """Whether all of its runs diverged."""
        return self.row is not None and self.row["seeds"] > 0 and self.row["diverged"] == self.row["seeds"]

    @property
    def seeds(self) -> str:
        """In words under how many seeds it is better, as `1 of 10 seeds better, 1 tied`."""
        n = self.row["seeds"] if self.row else 0
        tied = f", {self.tied} tied" if self.tied else ""
        return f"{self.better} of {n} seed{'s' * (n > 1)} better{tied}"


def standings(
    compared: Sequence[Record],
    summary: Sequence[Record],
    baseline: str,
    score: str,
    chance: Mapping[str, float] | None = None,
) -> dict[str, list[Standing]]:
    """Methods by variation, those with the best scores first.

    Args:
      compared: rows of `compare.csv`, with or without the baseline's own.
      summary: rows of `summary.csv`.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      chance: what guessing gives, by variation, see `chance_levels`.
    """
    rows = {(row.get("variant") or "", row["method"]): row for row in others(compared)}
    runs: dict[tuple[str, str], list[Record]] = {}
    for run in summary:
        runs.setdefault((run.get("variant") or "", run["method"]), []).append(run)
    rising = larger_is_better(next((str(run["metric"]) for run in summary if run.get("metric")), ""))
    by_variant: dict[str, list[Standing]] = {}
    for (variant, method), group in runs.items():
        row, mean = rows.get((variant, method)), mean_score(group, score)
        base = runs.get((variant, baseline), [])
        better, tied = wins(group, base, score, rising) if row else (0, 0)
        level = (chance or {}).get(variant) if rising and not any(run.get("diverged") for run in group) else None
        test = same_runs(group, score), same_runs(base, score)
        guess = None not in (level, mean) and _near(mean or 0.0, level or 0.0)
        standing = Standing(
            method=method,
            mean=mean,
            row=row,
            better=better,
            tied=tied,
            chance=guess,
            test=test,
            not_run=all(run.get("status") == NOT_RUN for run in group),
        )
        by_variant.setdefault(variant, []).append(standing)
    rank = lambda s: math.inf if s.mean is None else -s.mean if rising else s.mean
    return {variant: sorted(group, key=rank) for variant, group in by_variant.items()}


def _near(mean: float, level: float) -> bool:
    return mean <= level + min(NEAR_CHANCE, NEAR_SHARE * level)


def mean_score(runs: Sequence[Record], score: str) -> float | None:
    """The mean score of runs; diverged ones count as the worst there is, those that failed or have not run not at all."""
    values = seed_scores(runs, score)
    return float(np.mean(list(values.values()))) if values else None


def wins(runs: Sequence[Record], base: Sequence[Record], score: str, rising: bool) -> tuple[int, int]:
    """Seeds under which runs score better than those of the baseline, and under which they score the same.

    >>> runs, base = ([{"seed": s, "final": v, "diverged": 0} for s, v in enumerate(x)] for x in ([0.1, 0.3], [0.1, 0.2]))
    >>> wins(runs, base, "final", rising=True)
    (1, 1)
    """
    one, other = seed_scores(runs, score), seed_scores(base, score)
    shared = sorted(one.keys() & other.keys())
    d = differences(np.array([one[seed] for seed in shared], float), np.array([other[seed] for seed in shared], float))
    return int(np.sum(d > 0 if rising else d < 0)), int(np.sum(d == 0))


def seed_scores(runs: Sequence[Record], score: str) -> dict[int, float]:
    """Scores by seed of runs that have one; diverged ones have the worst score there is."""
    runs = [run for run in runs if ran(run)]
    metric = next((str(run["metric"]) for run in runs if run.get("metric")), "")
    values = scored([run.get(score) for run in runs], [bool(run.get("diverged")) for run in runs], worst(metric))
    return dict(zip((run["seed"] for run in runs), map(float, values), strict=True))


def chance_levels(partition: pd.DataFrame | None, metric: str) -> dict[str, float]:
    """The accuracy of guessing by variation: the share of the most frequent label among the clients' samples.

    Args:
      partition: the columns of `partition.csv`.
      metric: that is compared; only accuracies have a chance level.

    >>> table = pd.DataFrame({"client": [0, 0, 1], "label": [0, 1, 1], "samples": [4, 2, 4]})
    >>> chance_levels(table, "test_accuracy")
    {'': 0.6}
    """
    if partition is None or not metric.endswith("accuracy") or partition["label"].isna().to_numpy().any():
        return {}
    variants = partition["variant"].fillna("") if "variant" in partition else [""] * len(partition)
    samples: dict[str, dict[str, int]] = {}
    for variant, label, count in zip(variants, partition["label"], partition["samples"], strict=True):
        counts = samples.setdefault(str(variant), {})
        counts[str(label)] = counts.get(str(label), 0) + int(count)
    return {
        name: max(counts.values()) / sum(counts.values()) for name, counts in samples.items() if any(counts.values())
    }
