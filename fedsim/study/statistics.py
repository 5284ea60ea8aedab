"""Statistics of paired comparisons: how two methods differ under the same seeds, and how surely.

Runs that share a seed share partition, initial model, cohorts and batches. So what is compared are
differences, one per seed: d_s = score of a method − score of the baseline. Runs that ended early
are not dropped, see `scored`. `scipy.stats` takes a second to import, so only the functions that
need it import it.
"""

import functools
import itertools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

EXACT = 16  # pairs up to which all 2ⁿ signs are tried
FLIPS = 1 << 16  # signs that are drawn if there are more pairs
RANKED = 6  # pairs from which Wilcoxon's test can reach the usual levels
TIED = 13  # pairs up to which SciPy's test is exact with ties and zeros too
LEVEL = 0.95  # of confidence intervals
RESAMPLES = 2000  # of a bootstrap

# Scores near 1 differ by 1e-16 through rounding alone.
ROUNDING = 1e-9  # of the sum of all |d_s|: two sums closer than this are the same
SAME = 1e-12  # of the larger of two scores: two scores closer than this are the same


class Paired(NamedTuple):
    """Differences of one method to the baseline; a value that does not exist is None.

    Attributes:
      ci_low: the lower end of Student's 95 % interval of the mean; None also if all differences are
        equal, and so have no spread.
      p_value: of the exact two-sided sign-flip test.
      p_wilcoxon: of Wilcoxon's two-sided signed-rank test, from six pairs on.
      effect_size: the mean difference over the standard deviation of the differences (Cohen's d_z).
      probability_of_improvement: the share of seeds in which the method was better; ties count
        half.
    """

    seeds: int
    difference: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p_value: float | None = None
    p_wilcoxon: float | None = None
    effect_size: float | None = None
    probability_of_improvement: float = 0.5


def scored(values: Sequence[float | None], diverged: Sequence[bool], worst: float) -> np.ndarray:
    """Return scores in which a diverged run has the worst value there is; nothing is dropped.

    Args:
      values: the scores; None or NaN if a run has none.
    """
    scores = np.array([np.nan if value is None else value for value in values], float)
    return np.where(np.array(diverged, bool) | np.isnan(scores), worst, scores)


def paired(method: np.ndarray, baseline: np.ndarray, larger_is_better: bool) -> Paired:
    """Compare the scores of a method with those of the baseline `[n]` under the same seeds."""
    n = len(method)
    d = differences(method, baseline)
    better = d > 0 if larger_is_better else d < 0
    improvement = float((better.sum() + 0.5 * (d == 0).sum()) / n)
    result = Paired(seeds=n, probability_of_improvement=improvement)

    if not np.isfinite(d).all():
        # Infinite differences have no mean, but it is known which method was better.
        return result._replace(p_value=sign_flip(np.sign(d)))

    rounding = SAME * float(np.abs([method, baseline]).max())
    mean = float(d.mean())
    if abs(mean) <= rounding:
        mean = 0.0
    result = result._replace(difference=mean)
    if n < 2:
        return result
    result = result._replace(p_value=sign_flip(d), p_wilcoxon=wilcoxon(d))
    if not d.any() and n > 2:  # two seeds with the same scores say nothing about the spread
        return result._replace(ci_low=0.0, ci_high=0.0, effect_size=0.0)
    sd = float(d.std(ddof=1))
    if sd <= rounding:
        # An interval of width 0 would claim more than n equal differences can support.
        return result
    half = half_width(d)
    return result._replace(ci_low=mean - half, ci_high=mean + half, effect_size=mean / sd)


def p_different(one: np.ndarray, other: np.ndarray) -> float | None:
    """Return the p-value of the sign-flip test of scores `[n]` under the same seeds; None of none.

    If a difference is infinite, all of them count by their sign alone.
    """
    if not len(one):
        return None
    d = differences(one, other)
    if not np.isfinite(d).all():
        d = np.sign(d)
    return sign_flip(d)


def differences(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the differences of scores `[n]`; 0 for two scores that differ by rounding alone.

    >>> differences(np.array([0.1 + 0.2, 1.0, np.inf]), np.array([0.3, 0.5, np.inf])).tolist()
    [0.0, 0.5, 0.0]
    """
    with np.errstate(invalid="ignore"):
        d = one - other
        rounding = SAME * np.maximum(np.abs(one), np.abs(other))
        near = np.isfinite(d) & (np.abs(d) <= rounding)
        # Two infinite scores are equal, although ∞ − ∞ is NaN: both runs were lost.
        return np.where((one == other) | near, 0.0, d)


def p_mean_above(d: np.ndarray, bound: float) -> float:
    """Return the one-sided p-value of differences having a mean of at most a bound.

    By Student's t; twice it is below 5 % exactly if the 95 % interval lies above the bound. If the
    differences `[n]` are all equal, they have no t: then it is that of their signs, 2⁻ⁿ. It is 1 if
    there is only one difference, or one that is not finite.
    """
    n = len(d)
    if n < 2 or not np.isfinite(d).all():
        return 1.0
    above = float(d.mean()) - bound
    sd = float(d.std(ddof=1))
    if sd <= SAME * max(float(np.abs(d).max()), abs(bound)):
        sd = 0.0
    return p_mean_positive(above, sd, n)


def p_mean_positive(mean: float, sd: float, n: int) -> float:
    """Return the same as `p_mean_above` for a bound of 0, from the mean and sd of n numbers."""
    from scipy.special import stdtr

    if n < 2:
        return 1.0
    if sd == 0.0:
        return 2.0**-n if mean > 0 else 1.0
    return float(stdtr(n - 1, -mean * math.sqrt(n) / sd))


def half_width(values: Sequence[float] | np.ndarray) -> float:
    """Return half of Student's 95 % interval of the mean of two or more values, t · sd/√n."""
    return half_width_of(float(np.std(values, ddof=1)), len(values))


def half_width_of(sd: float, n: int) -> float:
    """Return the same as `half_width` from the standard deviation of n values."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + LEVEL) / 2)) * sd / math.sqrt(n)


def sample_sd(values: np.ndarray) -> float | None:
    """Return the standard deviation of values `[n]`; None below two, or if one is not finite."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(values.std(ddof=1))


def interval(values: np.ndarray) -> tuple[float, float] | None:
    """Return Student's 95 % interval of the mean of values `[n]`.

    None if there are fewer than two values, or if one is not finite.
    """
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    mean = float(values.mean())
    half = half_width(values)
    return mean - half, mean + half


def median_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the median of values and its 95 % interval of order statistics.

    It reaches from x₍ⱼ₎ to x₍ₙ₊₁₋ⱼ₎, for the largest j with P(Bin(n, ½) < j) ≤ 2.5 %. It holds
    whatever the distribution is (with ties it covers more). A value that is only known to be larger
    than all others may be given as ∞. There is no interval below six values.

    >>> median_interval([1.0, math.inf])
    (inf, None, None)
    """
    ordered = sorted(map(float, values))
    n = len(ordered)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2

    # P(Bin < 1), P(Bin < 2), ...
    below = itertools.accumulate(math.comb(n, k) / 2**n for k in range(n))
    j = sum(p <= (1 - LEVEL) / 2 for p in below)
    if j == 0:
        return median, None, None
    return median, ordered[j - 1], ordered[n - j]


def sign_flip(d: np.ndarray) -> float:
    """Return the two-sided p-value of the sign-flip test, P(|Σ ±d_s| ≥ |Σ d_s|) over all 2ⁿ signs.

    It tests whether differences `[n]` are symmetric about 0, and is exact up to 16 pairs. Beyond,
    65,536 signs are drawn with a fixed seed, and the observed ones are added to them.

    References:
      Phipson and Smyth 2010, Permutation P-values Should Never Be Zero.
    """
    n = len(d)
    observed = abs(math.fsum(d))
    edge = observed - ROUNDING * float(np.abs(d).sum())  # equal sums may differ in their last bits
    as_large = np.abs(signs(n, EXACT, FLIPS) @ d) >= edge
    if n <= EXACT:
        return float(as_large.mean())
    return float((as_large.sum() + 1) / (FLIPS + 1))


@functools.lru_cache(maxsize=16)  # a comparison makes hundreds of tests of as many pairs
def signs(n: int, exact: int, drawn: int) -> np.ndarray:
    """Return all signs of n pairs `[signs, n]`, the observed ones first.

    Of more than `exact` pairs so many are drawn with a fixed seed, without the observed ones.
    """
    if n <= exact:
        return np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    return np.random.default_rng(0).choice((1.0, -1.0), (drawn, n))


def wilcoxon(d: np.ndarray) -> float | None:
    """Return the two-sided p-value of Wilcoxon's signed-rank test; None below six pairs.

    Up to 13 pairs it is the sign-flip test of the ranks. SciPy returns the same number, but takes a
    second if some ranks are tied.
    """
    if len(d) < RANKED:
        return None
    if not d.any():
        return 1.0
    if len(d) > TIED:
        from scipy import stats

        return float(np.asarray(stats.wilcoxon(d))[1])
    d = d[d != 0]
    ranks_of_d = ranks(np.abs(d)[:, None], larger_is_better=False)[:, 0]
    return sign_flip(np.sign(d) * ranks_of_d)


def smallest_p(n: int) -> float:
    """Return the smallest p-value that a two-sided sign-flip test of n pairs can have."""
    if n <= EXACT:
        return 2.0 ** (1 - n)
    return 1 / (FLIPS + 1)


def holm(
    p_values: Sequence[float | None], tests: Sequence[Hashable] | None = None
) -> list[float | None]:
    """Return p-values after Holm's step-down adjustment; None for tests that could not be made.

    Args:
      p_values: the p-value of every test; None if it could not be made.
      tests: what distinguishes the tests: equal ones are the same test, which counts once; without
        it, all are different.
    """
    if tests is None:
        tests = range(len(p_values))
    made = {test: p for test, p in zip(tests, p_values, strict=True) if p is not None}
    adjusted: dict[Hashable, float | None] = {}
    highest = 0.0
    for rank, test in enumerate(sorted(made, key=lambda test: made[test])):
        highest = max(highest, min(1.0, (len(made) - rank) * made[test]))
        adjusted[test] = highest
    return [None if p is None else adjusted[test] for test, p in zip(tests, p_values, strict=True)]


def iqm(scores: np.ndarray) -> np.ndarray:
    """Return the interquartile mean of scores: the mean of the middle half of all of them.

    Scores are `[..., tasks, seeds]`, and means `[...]`.
    """
    flat = scores.reshape(*scores.shape[:-2], -1)  # [..., tasks · seeds]
    n = flat.shape[-1]
    cut = n // 4
    return np.partition(flat, (cut, n - cut - 1))[..., cut : n - cut].mean(-1)


def stratified(scores: np.ndarray) -> tuple[float, float]:
    """Return the 95 % percentile interval of `iqm` by a stratified bootstrap.

    Seeds are drawn in every task, of the scores of one method `[tasks, seeds]`.

    References:
      Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice,
      arXiv:2108.13264.
    """
    tasks, n = scores.shape
    picks = np.random.default_rng(0).integers(0, n, (RESAMPLES, tasks, n))
    rows = np.arange(tasks)[:, None]
    resampled = scores[rows, picks]  # [draws, tasks, seeds]
    low, high = np.quantile(iqm(resampled), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def profile(
    scores: np.ndarray, thresholds: np.ndarray, larger_is_better: bool = True
) -> np.ndarray:
    """Return a performance profile `[n]`: the share of runs that are better than each threshold.

    Args:
      scores: scores of one method `[tasks, seeds]`.
      thresholds: the thresholds `[n]`.
    """
    sign = 1 if larger_is_better else -1
    better = sign * np.ravel(scores)[None, :] > sign * thresholds[:, None]  # [n, runs]
    return better.mean(1)


def ranks(scores: np.ndarray, larger_is_better: bool) -> np.ndarray:
    """Return the ranks of methods in every task; 1 is the best, and ties share their mean.

    Scores and ranks are `[..., methods, tasks]`; no score is NaN.
    """
    losses = -scores if larger_is_better else scores
    one = losses[..., :, None, :]
    other = losses[..., None, :, :]
    better = (other < one).sum(-2)
    equal = (other == one).sum(-2)  # itself among them
    return better + (equal + 1) / 2
