"""Statistics that can be trusted: against SciPy, against the definition, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fedsim.study import statistics
from fedsim.study.statistics import (
    holm,
    iqm,
    p_mean_above,
    paired,
    profile,
    ranks,
    scored,
    sign_flip,
    smallest_p,
    stratified,
    wilcoxon,
)

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_paired_differences_match_scipy(n):
    a, b = RNG.normal(0.5, 0.1, n), RNG.normal(0.45, 0.1, n)
    result, test = paired(a, b, larger_is_better=True), stats.ttest_rel(a, b)
    assert (result.ci_low, result.ci_high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    d = a - b
    assert result.difference == pytest.approx(d.mean())
    assert result.effect_size == pytest.approx(d.mean() / d.std(ddof=1))
    assert result.p_value == pytest.approx(
        stats.permutation_test((d,), np.mean, permutation_type="samples").pvalue
    )
    assert result.p_wilcoxon == (pytest.approx(stats.wilcoxon(d).pvalue) if n >= 6 else None)
    assert result.probability_of_improvement == (d > 0).mean()
    less = paired(a, b, larger_is_better=False)
    assert less.probability_of_improvement == pytest.approx(1 - result.probability_of_improvement)
    assert less[:6] == result[:6]  # a difference is a difference


def test_many_pairs_are_tested_on_a_fixed_sample_of_signs():
    d = RNG.normal(0.1, 1, 40)
    assert sign_flip(d) == sign_flip(d) == pytest.approx(stats.ttest_1samp(d, 0).pvalue, abs=0.02)
    assert sign_flip(np.ones(40)) == smallest_p(40) > 0


def test_equal_scores_have_a_difference_of_0():
    same = RNG.normal(size=7)
    result = paired(same, same, True)
    assert result == (7, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.5)
    assert wilcoxon(np.zeros(8)) == 1.0 and wilcoxon(np.arange(1.0, 6)) is None


@pytest.mark.parametrize("one", [[0.1 + 0.2, 0.7], [0.85, 0.95], [1e6 + 0.1, 3e6 + 0.1]])
def test_two_equal_differences_give_no_interval(one):
    result = paired(np.array(one), np.array(one) - 0.1, True)
    assert result.difference == pytest.approx(0.1)
    assert (result.ci_low, result.ci_high, result.effect_size) == (None, None, None)
    tied = paired(np.array(one), np.array(one), True)
    assert (tied.difference, tied.ci_low, tied.effect_size, tied.p_value) == (0.0, None, None, 1.0)


def test_differences_below_rounding_count_as_0():
    steps = np.array([3, -1, -2, 4, -4]) / 359
    base = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    result = paired(base + steps, base, True)
    assert result.difference == result.effect_size == 0.0
    assert result.ci_low == -result.ci_high
    again = paired(base * (1 + 2e-16), base, True)
    assert again == paired(base, base, True)
    assert again.probability_of_improvement == 0.5
    # Small numbers are not rounding errors.
    small = paired(1e-7 * (base + steps), 1e-7 * base, False)
    assert small.effect_size == pytest.approx(0.0)
    assert small.ci_high == pytest.approx(1e-7 * result.ci_high)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_mean_above_a_bound_is_tested_as_scipy_does(n):
    d = RNG.normal(0.0, 0.02, n)
    test = stats.ttest_1samp(d, -0.01, alternative="greater")
    assert p_mean_above(d, -0.01) == pytest.approx(test.pvalue)
    low = paired(d, np.zeros(n), True).ci_low
    assert 2 * p_mean_above(d, low) == pytest.approx(0.05)
    assert 2 * p_mean_above(d, low - 1e-6) < 0.05 < 2 * p_mean_above(d, low + 1e-6)
    assert p_mean_above(np.full(n, 0.5), 0.0) == 2.0**-n
    assert p_mean_above(np.array([0.5, np.inf]), 0.0) == 1.0


def test_runs_that_diverged_count_as_the_worst():
    scores = scored([0.5, None, float("nan"), 0.9], [False, False, False, True], 0.0)
    assert scores.tolist() == [0.5, 0, 0, 0]
    losses = scored([1.0, 2.0, float("nan")], [False, True, True], math.inf)
    assert losses.tolist() == [1.0, np.inf, np.inf]
    result = paired(losses, np.array([1.5, 1.5, np.inf]), False)
    assert (result.difference, result.ci_low, result.p_value) == (None, None, 1.0)
    assert result.probability_of_improvement == 0.5  # better once, worse once, equal once


@pytest.mark.parametrize("p_values", [[0.5], [0.01, 0.04, 0.03], [0.2, 0.2, 0.9, 0.001]])
def test_holm_matches_its_definition(p_values):
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    wanted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        wanted[i] = highest
    assert holm(p_values) == wanted
    assert holm([None, *p_values]) == [None, *wanted]


def test_interquartile_mean_profile_and_ranks_match_their_definitions():
    scores = RNG.normal(size=(4, 10))
    assert iqm(scores) == pytest.approx(stats.trim_mean(scores.ravel(), 0.25))
    low, high = stratified(scores)
    assert low < iqm(scores) < high
    assert stratified(scores) == (low, high)  # drawn with a fixed seed
    assert stratified(np.full((3, 5), 0.5)) == (0.5, 0.5)
    assert stratified(np.array([[0.0, 1.0]])) == (0.0, 1.0)  # every seed is drawn again
    shares = profile(np.array([[0.1, 0.5], [0.5, 0.9]]), np.array([0.0, 0.4, 0.9]))
    assert shares.tolist() == [1.0, 0.75, 0.0]
    ranked = ranks(np.array([[1.0, 2.0], [3.0, 2.0]]), larger_is_better=False)
    assert ranked.tolist() == [[1.0, 1.5], [2.0, 1.5]]


@pytest.mark.parametrize("n", [6, 7, 10, 15])
def test_the_interval_of_a_median_has_binomial_order_statistics(n):
    values = np.random.default_rng(n).normal(size=n)
    median, low, high = statistics.median_interval(values.tolist())
    j = int(stats.binom.ppf(0.025, n, 0.5))  # P(Bin < j) ≤ 2.5 % < P(Bin ≤ j)
    ordered = np.sort(values)
    assert median == pytest.approx(np.median(values))
    assert (low, high) == (ordered[j - 1], ordered[n - j])


@pytest.mark.parametrize("n", [14, 15])
def test_wilcoxon_of_more_than_13_pairs_with_ties_is_as_scipy_has_it(n):
    d = np.array([1.0, 1, -1, 2, 2, 3, -3, 4, 5, 5, 6, 0, 7, 8, -2])[:n]
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d).pvalue, abs=1e-12)
