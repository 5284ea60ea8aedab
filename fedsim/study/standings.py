"""The standing of every method under every variation: its score against that of the baseline."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.study.guessing import is_at_chance
from fedsim.study.pairing import (
    SIGNIFICANCE_LEVEL,
    mean_score,
    seed_scores,
    shared_scores,
    test_of,
    without_baseline,
)
from fedsim.study.statistics import differences, smallest_p
from fedsim.study.summary import (
    NOT_FEDERATED,
    NOT_RUN,
    Record,
    as_loss,
    common_score,
    grouped,
    larger_is_better,
    metric_of,
    variation_of,
)
from fedsim.study.words import count
from fedsim.types.client import ALONE, POOLED

# Outcomes of the comparison with the baseline, as they are in the column `verdict`. Better and
# worse are significant after Holm's adjustment; nothing else is a difference.
BETTER = "better"
WORSE = "worse"
LEVEL = "no clear difference"
FEW_SEEDS = "too few seeds"
DIVERGED = "diverged"
FAILED = "failed"
NOT_ANY_RUN = "not run"
BASELINE = "baseline"
NOT_COMPARED = ""

MAX_SEEDS = 64  # up to which it is looked for how many seeds would be enough

# Baselines that are not federated methods: they are measured, and neither win nor lose.
OUTSIDE = {
    POOLED: "pooled data, not federated",
    ALONE: "every client alone, not federated",
}
ON_OWN_SAMPLES = "every client alone, on its own test samples"  # the others on all test samples
NO_OWN_SCORE = "no score: trains no shared model"

CHANCE = "at chance level"  # follows an outcome in the column


class Standing(NamedTuple):
    """A method under a variation.

    Attributes:
      mean: its mean score, in which a diverged run has the worst score there is; None if all of its
        runs failed or have not run.
      row: its row of `compare.csv`; None for the baseline.
      better: the number of seeds under which it is better than the baseline.
      tied: the number of seeds under which both have the same score.
      chance: whether its score is about that of guessing.
      test: equal for standings whose method and baseline have the same scores, as along an axis
        that neither of them reads.
      not_run: whether no round of any of its runs was aggregated.
      not_federated: why it is not a federated method, as in the column; empty if it is.
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
    not_federated: str = ""
    outcome: str = NOT_COMPARED

    @property
    def verdict(self) -> str:
        """The cell of its column `verdict`: `worse, at chance level`."""
        parts = [self.outcome]
        if self.diverged and self.outcome != DIVERGED:
            parts.append(DIVERGED)
        if self.chance:
            parts.append(CHANCE)
        return ", ".join(part for part in parts if part)

    @property
    def shared_seeds(self) -> int:
        """The number of seeds that the method and the baseline both ran."""
        return self.row["seeds"] if self.row else 0

    @property
    def compared(self) -> bool:
        """Whether it was compared with the baseline under at least one seed."""
        return self.outcome in (BETTER, WORSE, LEVEL, FEW_SEEDS, DIVERGED)

    @property
    def significant(self) -> bool:
        """Whether the exact test finds a difference to the baseline after Holm's adjustment."""
        p = self.row["p_adjusted"] if self.row else None
        return p is not None and p < SIGNIFICANCE_LEVEL

    @property
    def benefit(self) -> float:
        """How much better it is than the baseline.

        If an infinite score makes this no number, how much more often than not it is better.
        """
        if self.row is None or not self.row["seeds"]:
            return 0.0
        difference = self.row["difference"]
        if difference is None:
            return (self.row["probability_of_improvement"] or 0.5) - 0.5
        return difference if larger_is_better(self.row["metric"]) else -difference

    @property
    def diverged(self) -> bool:
        """Whether all of its runs diverged."""
        return bool(self.row) and 0 < self.row["seeds"] == self.row["diverged"]

    @property
    def seeds_in_words(self) -> str:
        """Under how many seeds it is better, in words: `better in 1 of 10 seeds, tied in 1`."""
        text = f"better in {self.better} of {count(self.shared_seeds, 'seed')}"
        if self.tied:
            text += f", tied in {self.tied}"
        return text


def standings(
    compared: Sequence[Record],
    summary: Sequence[Record],
    baseline: str,
    score: str,
    chance: Mapping[str, float] | None = None,
) -> dict[str, list[Standing]]:
    """Return the methods by variation, those with the best scores first.

    Args:
      chance: the score of guessing by variation, see `chance_levels`.
    """
    rows = {(variation_of(row), row["method"]): row for row in without_baseline(compared)}
    runs = grouped(summary, key=lambda run: (variation_of(run), run["method"]))
    rising = larger_is_better(metric_of(summary))

    by_variation: dict[str, list[Standing]] = {}
    for (variation, method), method_runs in runs.items():
        base = runs.get((variation, baseline), [])
        row = rows.get((variation, method))
        mean = mean_score(method_runs, score)
        level = (chance or {}).get(variation) if rising else None
        better, tied = (0, 0) if row is None else count_wins(method_runs, base, score, rising)
        standing = Standing(
            method=method,
            mean=mean,
            row=row,
            better=better,
            tied=tied,
            chance=is_at_chance(mean, method_runs, level),
            test=test_of(method_runs, base, score),
            not_run=all(run.get("status") == NOT_RUN for run in method_runs),
            not_federated=str(method_runs[0].get(NOT_FEDERATED) or ""),
        )
        by_variation.setdefault(variation, []).append(standing)

    def rank(standing: Standing) -> float:
        """A number that is smaller for better means; those on other samples, or none, are last."""
        if standing.mean is None or standing.outcome == ON_OWN_SAMPLES:
            return math.inf
        return as_loss(standing.mean, rising)

    tests = count_tests(by_variation)
    ranked: dict[str, list[Standing]] = {}
    for variation, group in by_variation.items():
        baseline_guesses = any(s.chance and s.method == baseline for s in group)
        judged = []
        for standing in group:
            outcome = _outcome(standing, baseline, baseline_guesses, tests, score)
            judged.append(standing._replace(outcome=outcome))
        ranked[variation] = sorted(judged, key=rank)
    return ranked


def count_tests(by_variation: Mapping[str, Sequence[Standing]]) -> int:
    """Return how many tests Holm's adjustment of `compare.csv` runs over.

    Comparisons of the same scores are one test.
    """
    every = [standing for group in by_variation.values() for standing in group]
    return len({standing.test for standing in every if standing.shared_seeds})


def too_few(seeds: int, tests: int) -> bool:
    """Return whether no difference could be significant after Holm, whatever the scores were."""
    return smallest_p(seeds) * max(tests, 1) >= SIGNIFICANCE_LEVEL


def few_seeds(seeds: int, tests: int) -> str:
    """Return that no difference could be significant, and how many seeds it takes; else nothing."""
    if seeds == 0 or not too_few(seeds, tests):
        return ""
    text = f"{count(seeds, 'seed')} {'is' if seeds == 1 else 'are'} too few"
    enough = enough_seeds(tests)
    return text if enough is None else f"{text}, {enough} would do"


def enough_seeds(tests: int) -> int | None:
    """Return the least number of seeds with which a difference could be significant after Holm.

    None if there is no such number: the test draws a fixed number of signs beyond some seeds, which
    may be too few for very many tests.
    """
    return next((seeds for seeds in range(2, MAX_SEEDS) if not too_few(seeds, tests)), None)


def _outcome(
    standing: Standing, baseline: str, baseline_guesses: bool, tests: int, score: str
) -> str:
    """The outcome of comparing a method with the baseline."""
    if standing.not_run:
        return NOT_ANY_RUN
    if standing.mean is None:
        return NO_OWN_SCORE if standing.not_federated == ALONE else FAILED
    if standing.row is not None and standing.row["score"] != score:
        return ON_OWN_SAMPLES
    if standing.not_federated:
        return OUTSIDE[standing.not_federated]
    if standing.method == baseline:
        return BASELINE
    if standing.row is None or not standing.row["seeds"]:
        return NOT_COMPARED
    if standing.chance and baseline_guesses:
        return NOT_COMPARED
    if standing.significant:
        return BETTER if standing.benefit > 0 else WORSE
    if standing.diverged:
        return DIVERGED
    if too_few(standing.row["seeds"], tests):
        return FEW_SEEDS
    return LEVEL


def count_wins(
    runs: Sequence[Record], base: Sequence[Record], score: str, rising: bool
) -> tuple[int, int]:
    """Return under how many seeds runs score better than the baseline, and how many tie with it."""
    score = common_score(score, runs, base)
    scores, base_scores = shared_scores(seed_scores(runs, score), seed_scores(base, score))
    d = differences(scores, base_scores)
    better = d > 0 if rising else d < 0
    return int(np.sum(better)), int(np.sum(d == 0))
