"""Statistics over tasks: all pairs of methods, ranks with intervals, the best of k trials.

Runs of one seed share start model, cohorts and often data, also in different tasks: their
differences may go in one direction together. So over tasks a seed is one observation, the mean of
its differences in all tasks, and one sign is flipped for it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.study.pairing import SIGNIFICANCE_LEVEL, shared_scores
from fedsim.study.statistics import LEVEL, RESAMPLES, Paired, holm, paired, ranks


class Pair(NamedTuple):
    """Two methods under the same seeds.

    Attributes:
      test: of the score of `one` minus that of `other`; without pairs if they share no seed.
      sign: 1 if the mean of `one` is better, -1 if it is worse, 0 if both are the same.
      p_adjusted: after Holm over all pairs.
    """

    one: str
    other: str
    test: Paired
    sign: int
    p_adjusted: float | None = None

    @property
    def told_apart(self) -> bool:
        """Whether the test, after Holm, finds a difference."""
        return self.p_adjusted is not None and self.p_adjusted < SIGNIFICANCE_LEVEL

    def outcome_of(self, method: str) -> int:
        """1 if one of the two is significantly better, -1 if it is worse, 0 if that is open."""
        if not self.told_apart:
            return 0
        return self.sign if method == self.one else -self.sign


def all_pairs(scores: Mapping[str, Mapping[int, float]], larger_is_better: bool) -> list[Pair]:
    """Return all pairs of methods, with Holm's adjustment over all of them.

    >>> scores = {"a": dict(enumerate([1.0, 2.0, 4.0])), "b": dict(enumerate([0.0, 0.0, 1.0]))}
    >>> (pair,) = all_pairs(scores, larger_is_better=True)
    >>> pair.test.difference, pair.test.p_value, pair.sign, pair.told_apart
    (2.0, 0.25, 1, False)
    """
    pairs = []
    for one, other in itertools.combinations(scores, 2):
        values, others = shared_scores(scores[one], scores[other])
        test = paired(values, others, larger_is_better) if len(values) else Paired(seeds=0)
        gain = test.probability_of_improvement - 0.5
        if test.difference is not None:
            gain = test.difference if larger_is_better else -test.difference
        pairs.append(Pair(one, other, test, sign=int(np.sign(gain))))
    adjusted = holm([pair.test.p_value for pair in pairs])
    return [pair._replace(p_adjusted=p) for pair, p in zip(pairs, adjusted, strict=True)]


def rank_intervals(
    scores: np.ndarray, larger_is_better: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean ranks over tasks with 95 % percentile intervals of a stratified bootstrap.

    Seeds are drawn in every task, the same ones for all methods, since they are paired.

    Args:
      scores: scores `[methods, tasks, seeds]`.

    Returns:
      Mean ranks, lower and upper ends, `[methods]` each.
    """
    methods, tasks, n = scores.shape
    generator = np.random.default_rng(0)
    drawn = np.empty((RESAMPLES, methods))
    rows = np.arange(tasks)[:, None]
    for draw in range(RESAMPLES):
        picks = generator.integers(0, n, (tasks, n))
        means = scores[:, rows, picks].mean(-1)  # [methods, tasks]
        drawn[draw] = ranks(means, larger_is_better).mean(-1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return ranks(scores.mean(-1), larger_is_better).mean(-1), low, high


def expected_best(scores: Sequence[float], larger_is_better: bool) -> list[float]:
    """Return the expected best score of k of some trials, for k = 1 ... all of them.

    It is the mean over all choices of k trials, E_k = Σ_i C(i - 1, k - 1) / C(n, k) · s₍ᵢ₎ with the
    best trial last: unbiased for the best of k draws.

    Args:
      scores: one of every trial; drawn settings, so that their order says nothing.

    References:
      Dodge et al. 2019, Show Your Work, arXiv:1909.03004; without replacement as Tang et al. 2020,
      Showing Your Work Doesn't Always Work, arXiv:2004.13705.

    >>> expected_best([1.0, 3.0, 2.0], larger_is_better=True)
    [2.0, 2.6666666666666665, 3.0]
    """
    best_last = sorted(scores, reverse=not larger_is_better)
    n = len(best_last)
    expected = []
    for k in range(1, n + 1):
        terms = []
        for index, score in enumerate(best_last):
            ways = math.comb(index, k - 1)
            if ways:  # so that an infinite score that is never the best does not count
                terms.append(ways / math.comb(n, k) * score)
        expected.append(math.fsum(terms))
    return expected
