"""A run or comparison repeated elsewhere: are its scores those that were recorded?

A repetition on other machines or versions has other bits, and its differences are of either sign
where it is sound. They are paired by seed, and tested as methods are (`fedsim.study.statistics`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.study.pairing import SIGNIFICANCE_LEVEL, same_runs
from fedsim.study.statistics import holm, paired, scored, smallest_p
from fedsim.study.summary import (
    Record,
    grouped,
    larger_is_better,
    variation_of,
    with_score,
    worst,
)

# Two scores closer than this, relative to the larger, are the same: they are computed in float32.
ROUNDING = 1e-6


class Row(NamedTuple):
    """A method under one variation, repeated.

    Attributes:
      method: its label.
      variant: the variation; empty where nothing varies.
      metric: the metric of its scores.
      seeds: how many seeds both have.
      recorded: mean of the recorded scores.
      repeated: mean of the repeated scores.
      difference: their mean difference; None where one is infinite.
      ci_low: lower end of Student's 95 % interval of it; None where there is none.
      ci_high: upper end.
      p_value: of the exact sign-flip test; None for a single seed.
      p_adjusted: after Holm, over all rows.
      same: whether all scores are the same but for rounding.
      testable: whether so many seeds can differ significantly at all, after Holm.
    """

    method: str
    variant: str
    metric: str
    seeds: int
    recorded: float
    repeated: float
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    p_adjusted: float | None = None
    same: bool = False
    testable: bool = False

    @property
    def differs(self) -> bool:
        """Whether the repetition differs significantly."""
        return self.p_adjusted is not None and self.p_adjusted < SIGNIFICANCE_LEVEL


def repetition(recorded: Sequence[Record], repeated: Sequence[Record], score: str) -> list[Row]:
    """Compare the rows of two `summary.csv`, method by method, under the seeds that both have.

    Args:
      recorded: one of them.
      repeated: the other one.
      score: one of `SCORES`.
    """
    key = lambda row: (row["method"], variation_of(row))
    before = grouped(with_score(recorded, score), key)
    after = grouped(with_score(repeated, score), key)
    rows = []
    tests = []
    for who, runs in before.items():
        row = _row(who, runs, after.get(who, []), score)
        if row is not None:
            rows.append(row)
            tests.append((same_runs(runs, score), same_runs(after[who], score)))
    adjusted = holm([row.p_value for row in rows], tests)
    count = len(set(tests))
    finished = []
    for row, p in zip(rows, adjusted, strict=True):
        testable = row.seeds > 1 and count * smallest_p(row.seeds) < SIGNIFICANCE_LEVEL
        finished.append(row._replace(p_adjusted=p, testable=testable))
    return finished


def _row(
    who: tuple[str, str], before: Sequence[Record], after: Sequence[Record], score: str
) -> Row | None:
    """One method under one variation; None where the two share no seed."""
    seeds = sorted({row["seed"] for row in before} & {row["seed"] for row in after})
    if not seeds:
        return None
    metric = str(before[0]["metric"])
    recorded = _scores(before, seeds, score, metric)
    repeated = _scores(after, seeds, score, metric)
    with np.errstate(invalid="ignore"):
        near = np.abs(repeated - recorded) <= ROUNDING * np.maximum(abs(repeated), abs(recorded))
    repeated = np.where(near, recorded, repeated)
    tests = paired(repeated, recorded, larger_is_better(metric))
    return Row(
        method=who[0],
        variant=who[1],
        metric=metric,
        seeds=len(seeds),
        recorded=float(recorded.mean()),
        repeated=float(repeated.mean()),
        difference=tests.difference,
        ci_low=tests.ci_low,
        ci_high=tests.ci_high,
        p_value=tests.p_value,
        same=bool((repeated == recorded).all()),
    )


def _scores(rows: Sequence[Record], seeds: Sequence[int], score: str, metric: str) -> np.ndarray:
    """The scores under some seeds `[seeds]`."""
    by_seed = {row["seed"]: row for row in rows}
    chosen = [by_seed[seed] for seed in seeds]
    diverged = [bool(row["diverged"]) for row in chosen]
    return scored([row[score] for row in chosen], diverged, worst(metric))
