"""The standing of every method under every variation: its score, its difference to the baseline,
and whether it is chance.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.study.pairing import SURE, others, same_runs
from fedsim.study.statistics import differences, scored, smallest_p
from fedsim.study.summary import NOT_RUN, Record, larger_is_better, ran, worst

# above chance by at most that much, and by at most that share of it
NEAR_CHANCE, NEAR_SHARE = 0.02, 0.25

# what a comparison with the baseline comes to: the column `verdict` of its table
SURELY_BETTER, SURELY_WORSE = "surely better", "surely worse"
BETTER, WORSE = "better, not after Holm", "worse, not after Holm"
BETTER_OF_FEW, WORSE_OF_FEW = "better, too few seeds", "worse, too few seeds"
LEVEL = "not told apart"
DIVERGED = "diverged"
FAILED = "failed"
NOT_ANY_RUN = "not run"
NOT_COMPARED = ""
CHANCE = "at chance level"


class Standing(NamedTuple):
    """A method under a variation.

    Attributes:
      method: its label.
      mean: of its scores; diverged runs count as the worst there is. None where all of its runs
        failed or have not run.
      row: of `compare.csv`; None for the baseline.
      better: seeds under which it is better than the baseline.
      tied: seeds under which both have the same score.
      chance: whether its score is about what guessing gives.
      test: what is equal where the scores of method and baseline are the same, as along an axis
        that neither of them reads.
      not_run: whether no round of any of its runs was aggregated.
      outcome: of the comparison with the baseline, one of the constants of this file.
    """

    method: str
    mean: float | None
    row: Record | None
    better: int = 0
    tied: int = 0
    chance: bool = False
    test: Hashable = None
    not_run: bool = False
    outcome: str = NOT_COMPARED

    @property
    def verdict(self) -> str:
        """What is to be said of it, as its table has it: `surely worse, at chance level`."""
        lost = DIVERGED if self.diverged else ""
        guessing = CHANCE if self.chance else ""
        return ", ".join(dict.fromkeys(filter(None, (self.outcome, lost, guessing))))

    @property
    def sure(self) -> bool:
        """Whether the exact test tells it from the baseline, after Holm's adjustment."""
        p = self.row["p_adjusted"] if self.row else None
        return p is not None and p < SURE

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
        difference = self.row["difference"]
        return difference if larger_is_better(self.row["metric"]) else -difference

    @property
    def benefit_ends(self) -> tuple[float, float] | None:
        """The 95 % interval of the benefit; None where there is none."""
        if self.row is None or self.row["ci_low"] is None:
            return None
        low, high = self.row["ci_low"], self.row["ci_high"]
        return (low, high) if larger_is_better(self.row["metric"]) else (-high, -low)

    @property
    def diverged(self) -> bool:
        """Whether all of its runs diverged."""
        return (
            self.row is not None
            and self.row["seeds"] > 0
            and self.row["diverged"] == self.row["seeds"]
        )

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
    metric = next((str(run["metric"]) for run in summary if run.get("metric")), "")
    rising = larger_is_better(metric)
    by_variant: dict[str, list[Standing]] = {}
    for (variant, method), group in runs.items():
        row, mean = rows.get((variant, method)), mean_score(group, score)
        base = runs.get((variant, baseline), [])
        better, tied = wins(group, base, score, rising) if row else (0, 0)
        lost = any(run.get("diverged") for run in group)
        level = (chance or {}).get(variant) if rising and not lost else None
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
    tests = tests_of(by_variant)
    ranked: dict[str, list[Standing]] = {}
    for variant, group in by_variant.items():
        guessing = any(s.chance and s.method == baseline for s in group)
        known = [s._replace(outcome=_outcome(s, guessing, tests)) for s in group]
        ranked[variant] = sorted(known, key=rank)
    return ranked


def tests_of(by_variant: Mapping[str, Sequence[Standing]]) -> int:
    """How many tests Holm's adjustment of `compare.csv` runs over; the same scores are one test."""
    every = (standing for group in by_variant.values() for standing in group)
    tested = (s for s in every if s.row and s.row["p_value"] is not None)
    return len({standing.test for standing in tested})


def too_few(seeds: int, tests: int) -> bool:
    """Whether no difference under so few seeds could be sure, whatever had come out."""
    return smallest_p(seeds) * max(tests, 1) >= SURE


def _outcome(standing: Standing, baseline_guesses: bool, tests: int) -> str:
    """What the comparison of a method with the baseline comes to."""
    if standing.not_run:
        return NOT_ANY_RUN
    if standing.mean is None:
        return FAILED
    if standing.row is None or not standing.row["seeds"]:
        return NOT_COMPARED
    if standing.chance and baseline_guesses:
        return NOT_COMPARED
    ahead = standing.benefit > 0
    if standing.sure:
        return SURELY_BETTER if ahead else SURELY_WORSE
    if standing.clear and too_few(standing.row["seeds"], tests):
        return BETTER_OF_FEW if ahead else WORSE_OF_FEW
    if standing.clear:
        return BETTER if ahead else WORSE
    return DIVERGED if standing.diverged else LEVEL


def _near(mean: float, level: float) -> bool:
    return mean <= level + min(NEAR_CHANCE, NEAR_SHARE * level)


def mean_score(runs: Sequence[Record], score: str) -> float | None:
    """The mean score of runs; diverged ones count as the worst there is, those that failed or have
    not run not at all.
    """
    values = seed_scores(runs, score)
    return float(np.mean(list(values.values()))) if values else None


def wins(
    runs: Sequence[Record], base: Sequence[Record], score: str, rising: bool
) -> tuple[int, int]:
    """Seeds under which runs score better than those of the baseline, and under which they score
    the same.

    >>> runs, base = ([{"seed": s, "final": v, "diverged": 0} for s, v in enumerate(x)] for x in ([0.1, 0.3], [0.1, 0.2]))
    >>> wins(runs, base, "final", rising=True)
    (1, 1)
    """
    one, other = seed_scores(runs, score), seed_scores(base, score)
    shared = sorted(one.keys() & other.keys())
    d = differences(
        np.array([one[seed] for seed in shared], float),
        np.array([other[seed] for seed in shared], float),
    )
    return int(np.sum(d > 0 if rising else d < 0)), int(np.sum(d == 0))


def seed_scores(runs: Sequence[Record], score: str) -> dict[int, float]:
    """Scores by seed of runs that have one; diverged ones have the worst score there is."""
    runs = [run for run in runs if ran(run)]
    metric = next((str(run["metric"]) for run in runs if run.get("metric")), "")
    values = scored(
        [run.get(score) for run in runs], [bool(run.get("diverged")) for run in runs], worst(metric)
    )
    return dict(zip((run["seed"] for run in runs), map(float, values), strict=True))


def chance_levels(partition: pd.DataFrame | None, metric: str) -> dict[str, float]:
    """The accuracy of guessing by variation: the share of the most frequent label among the
    clients' samples.

    Args:
      partition: the columns of `partition.csv`.
      metric: that is compared; only accuracies have a chance level.

    >>> table = pd.DataFrame({"client": [0, 0, 1], "label": [0, 1, 1], "samples": [4, 2, 4]})
    >>> chance_levels(table, "test_accuracy")
    {'': 0.6}
    """
    if (
        partition is None
        or not metric.endswith("accuracy")
        or partition["label"].isna().to_numpy().any()
    ):
        return {}
    variants = partition["variant"].fillna("") if "variant" in partition else [""] * len(partition)
    samples: dict[str, dict[str, int]] = {}
    for variant, label, count in zip(
        variants, partition["label"], partition["samples"], strict=True
    ):
        counts = samples.setdefault(str(variant), {})
        counts[str(label)] = counts.get(str(label), 0) + int(count)
    return {
        name: max(counts.values()) / sum(counts.values())
        for name, counts in samples.items()
        if any(counts.values())
    }
