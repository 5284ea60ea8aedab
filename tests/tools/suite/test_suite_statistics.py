"""Statistics over the tasks of a suite are those of SciPy and of their definitions."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fedsim.tools.suite.statistics import all_pairs, expected_best, rank_intervals


def holm_by_hand(p):
    """Holm's adjustment in plain NumPy."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(np.minimum(1, np.sort(p) * np.arange(len(p), 0, -1)))
    adjusted = np.empty(len(p))
    adjusted[order] = steps
    return adjusted


def test_all_pairs_are_those_of_scipy_with_holm_over_all_of_them():
    scores = np.random.default_rng(3).normal([[0.0], [0.4], [1.5], [1.6]], 0.5, (4, 8))
    by_method = {name: dict(enumerate(row)) for name, row in zip("abcd", scores, strict=True)}
    pairs = all_pairs(by_method, larger_is_better=False)
    expected = []
    mean_difference = lambda x, y, axis: (x - y).mean(axis)
    for pair, (x, y) in zip(pairs, itertools.combinations(scores, 2), strict=True):
        test = stats.permutation_test((x, y), mean_difference, permutation_type="samples")
        expected.append(test.pvalue)
        ends = stats.ttest_rel(x, y).confidence_interval()
        assert (pair.test.ci_low, pair.test.ci_high) == pytest.approx(ends)
        assert pair.sign == -np.sign((x - y).mean())  # a smaller score is better
    assert [pair.test.p_value for pair in pairs] == pytest.approx(expected)
    assert [pair.p_adjusted for pair in pairs] == pytest.approx(holm_by_hand(expected))
    assert {pair.told_apart for pair in pairs} == {True, False}


def test_the_best_of_k_trials_is_the_mean_over_all_choices_of_k():
    scores = np.random.default_rng(1).normal(size=6)
    for rising, best in ((True, max), (False, min)):
        for k, expected in enumerate(expected_best(scores.tolist(), rising), start=1):
            chosen = [best(some) for some in itertools.combinations(scores, k)]
            assert expected == pytest.approx(np.mean(chosen))
    assert expected_best([math.inf, 1.0], larger_is_better=False) == [math.inf, 1.0]


def test_intervals_of_ranks_cover_what_seeds_leave_open():
    scores = np.random.default_rng(2).normal(size=(3, 4, 10))
    scores[0] += 50  # always first
    mean, low, high = rank_intervals(scores, larger_is_better=True)
    assert (mean[0], low[0], high[0]) == (1, 1, 1)
    assert (low[1:] < mean[1:]).all() and (mean[1:] < high[1:]).all()
