"""Statistics of paired comparisons: what two methods did under the same seeds, and how sure one can be.

Runs that share a seed share partition, start model, cohorts and batches, so what is compared are differences
d_s = score of a method − score of the baseline, one per seed. Whatever ended early stays in: see `scored`.
`scipy.stats` is imported by what needs it, which few comparisons do: it takes a second.
"""

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

EXACT = 16  # pairs up to which all 2ⁿ signs are tried; beyond, a fixed sample of them
FLIPS = 1 << 16
ROUNDING = 1e-9  # of the sum of all |d_s|, below which two sums are the same: scores near 1 differ by 1e-16
SAME = 1e-12  # of the larger of two scores: what they differ by less than that is rounding
RANKED = 6  # pairs from which Wilcoxon's test can say anything at the usual levels
TIED = 13  # pairs up to which SciPy's is exact with ties and zeros as well
LEVEL = 0.95


class Paired(NamedTuple):
    """Differences of one method to the baseline; None where it cannot be said."""

    seeds: int  # pairs
    difference: float | None  # their mean
    ci_low: (
        float | None
    )  # lower end of Student's 95 % interval of the mean; None where equal differences have no spread
    ci_high: float | None  # upper end
    p_value: float | None  # exact sign-flip test, two-sided
    p_wilcoxon: float | None  # Wilcoxon's signed-rank test, two-sided, from six pairs on
    effect_size: float | None  # mean difference over their standard deviation (Cohen's d_z)
    probability_of_improvement: (
        float  # share of seeds in which the method was better, ties counting half
    )


def scored(values: Sequence[float | None], diverged: Sequence[bool], worst: float) -> np.ndarray:
    """Scores in which a diverged run counts as the worst there is. Nothing is dropped.

    >>> scored([0.9, float("nan")], [False, True], worst=0.0).tolist()
    [0.9, 0.0]
    """
    bad = [d or v is None or math.isnan(v) for v, d in zip(values, diverged, strict=True)]
    return np.array([worst if b else v for v, b in zip(values, bad, strict=True)], float)


def paired(method: np.ndarray, baseline: np.ndarray, larger_is_better: bool) -> Paired:
    """Compare scores `[n]` of a method with those of the baseline under the same seeds `[n]`."""
    n = len(method)
    d = differences(method, baseline)
    better = d > 0 if larger_is_better else d < 0
    improvement = float((better.sum() + 0.5 * (d == 0).sum()) / n)
    if not np.isfinite(
        d
    ).all():  # a loss without bound has no mean; which of the two was better is known
        return Paired(n, None, None, None, sign_flip(np.sign(d)), None, None, improvement)
    rounding = SAME * float(np.abs([method, baseline]).max())
    mean = float(d.mean())
    if abs(mean) <= rounding:
        mean = 0.0
    if n < 2:
        return Paired(n, mean, None, None, None, None, None, improvement)
    if not d.any():  # the same scores under every seed
        low, high = (0.0, 0.0) if n > 2 else (None, None)
        return Paired(n, 0.0, low, high, 1.0, wilcoxon(d), 0.0 if n > 2 else None, improvement)
    sd = float(d.std(ddof=1))
    if sd <= rounding:  # an interval of width 0 would claim more than n equal numbers can
        return Paired(n, mean, None, None, sign_flip(d), wilcoxon(d), None, improvement)
    half = half_width(d)
    return Paired(
        n, mean, mean - half, mean + half, sign_flip(d), wilcoxon(d), mean / sd, improvement
    )


def differ(one: np.ndarray, other: np.ndarray) -> float:
    """The p of the sign-flip test of scores `[n]` under the same seeds; infinite ones count by which was better."""
    d = differences(one, other)
    return sign_flip(d if np.isfinite(d).all() else np.sign(d))


def differences(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Differences of scores `[n]` under the same seeds `[n]`; 0 where rounding alone tells two of them apart.

    >>> differences(np.array([0.1 + 0.2, 1.0, np.inf]), np.array([0.3, 0.5, np.inf])).tolist()
    [0.0, 0.5, 0.0]
    """
    with np.errstate(invalid="ignore"):
        d = one - other
        rounding = SAME * np.maximum(np.abs(one), np.abs(other))
        near = np.isfinite(d) & (np.abs(d) <= rounding)
        return np.where((one == other) | near, 0.0, d)  # ∞ − ∞: both failed alike


def at_least(d: np.ndarray, bound: float) -> float:
    """The p of differences `[n]` against the hypothesis that their mean is at most a bound: one-sided, by Student's t.

    Twice it is below 5 % exactly where the lower end of their 95 % interval is above the bound. Differences without
    spread have no t: all 2ⁿ signs count then, of which one is as good. 1 where the differences are not finite, or one.

    >>> round(at_least(np.array([1.0, 2.0, 3.0]), 0.0), 4), at_least(np.array([0.0, 0.0]), -0.01)
    (0.0371, 0.25)
    """
    n = len(d)
    if n < 2 or not np.isfinite(d).all():
        return 1.0
    above = float(d.mean()) - bound
    sd = float(d.std(ddof=1))
    if sd <= SAME * max(float(np.abs(d).max()), abs(bound)):
        sd = 0.0
    return more_than_nothing(above, sd, n)


def more_than_nothing(mean: float, sd: float, n: int) -> float:
    """The p of n numbers against the hypothesis that the mean of what they are drawn from is at most 0, one-sided.

    By Student's t; where they are all equal, by their signs.

    >>> round(more_than_nothing(2.0, 1.0, 3), 4), more_than_nothing(0.1, 0.0, 3)
    (0.0371, 0.125)
    """
    from scipy.special import stdtr

    if n < 2:
        return 1.0
    if sd == 0.0:
        return 2.0**-n if mean > 0 else 1.0
    return float(stdtr(n - 1, -mean * math.sqrt(n) / sd))


def half_width(values: Sequence[float] | np.ndarray) -> float:
    """Half of Student's 95 % interval of the mean of two or more values, t · sd/√n.

    >>> round(half_width([1.0, 2.0, 3.0]), 3)
    2.484
    """
    return half_width_of(float(np.std(values, ddof=1)), len(values))


def half_width_of(sd: float, n: int) -> float:
    """The same from the standard deviation of n values."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + LEVEL) / 2)) * sd / math.sqrt(n)


def interval(values: np.ndarray) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean of values `[n]`; None below two of them, or where one is not finite.

    >>> [round(end, 3) for end in interval(np.array([1.0, 2.0, 3.0]))]
    [-0.484, 4.484]
    """
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    mean, half = float(values.mean()), half_width(values)
    return mean - half, mean + half


def median_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The median of values and its 95 % interval from x₍ⱼ₎ to x₍ₙ₊₁₋ⱼ₎, for the largest j with P(Bin(n, ½) < j) ≤ 2.5 %.

    It holds whatever the distribution is (with ties it covers more), and a value that is only known to be larger than all
    others may be given as ∞. No interval below six values.

    >>> median_interval([3.0, 1.0, 2.0, 4.0, 5.0, math.inf])
    (3.5, 1.0, inf)
    >>> median_interval([1.0, math.inf])
    (inf, None, None)
    """
    ordered, n = sorted(map(float, values)), len(values)
    below = itertools.accumulate(
        math.comb(n, k) / 2**n for k in range(n)
    )  # P(Bin < 1), P(Bin < 2), ...
    j = sum(p <= (1 - LEVEL) / 2 for p in below)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return (median, ordered[j - 1], ordered[n - j]) if j else (median, None, None)


def sign_flip(d: np.ndarray) -> float:
    """Sign-flip test of differences symmetric about 0: P(|Σ ±d_s| ≥ |Σ d_s|) over all 2ⁿ signs, two-sided and exact.

    From 17 pairs on over 65,536 signs drawn with a fixed seed, the observed ones counted in (Phipson and Smyth 2010).

    >>> sign_flip(np.array([1.0, 2.0, 3.0]))
    0.25
    """
    n, observed = len(d), abs(math.fsum(d))
    edge = observed - ROUNDING * float(np.abs(d).sum())  # equal sums may differ in their last bits
    if n <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        return float((np.abs(signs @ d) >= edge).mean())
    signs = np.random.default_rng(0).choice((1.0, -1.0), (FLIPS, n))
    return float(((np.abs(signs @ d) >= edge).sum() + 1) / (FLIPS + 1))


def wilcoxon(d: np.ndarray) -> float | None:
    """Wilcoxon's signed-rank test, two-sided; None below six pairs.

    Up to 13 pairs over all signs of the ranks: SciPy's number, which takes it a second where some of them tie.

    >>> wilcoxon(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    0.03125
    """
    if len(d) < RANKED:
        return None
    if len(d) > TIED:
        from scipy import stats

        return 1.0 if not d.any() else float(np.asarray(stats.wilcoxon(d))[1])
    d = d[d != 0]
    rank = _ranked(np.abs(d))
    sums = (
        np.array(list(itertools.product((0.0, 1.0), repeat=len(d)))) @ rank
    )  # multiples of 1/2: exact
    observed = rank[d > 0].sum()
    return float(min(1.0, 2 * min((sums >= observed).mean(), (sums <= observed).mean())))


def smallest_p(n: int) -> float:
    """The smallest p that a two-sided sign-flip test of n pairs can give.

    >>> smallest_p(5)
    0.0625
    """
    return 2.0 ** (1 - n) if n <= EXACT else 1 / (FLIPS + 1)


def holm(
    p_values: Sequence[float | None], tests: Sequence[Hashable] | None = None
) -> list[float | None]:
    """Holm's step-down adjustment over a family of tests; those that could not be made stay None.

    Args:
      p_values: of every test.
      tests: what tells tests apart: equal ones are the same test made again, which counts once. Left out: all differ.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    >>> holm([0.01, 0.01, 0.04], tests=["a", "a", "b"])
    [0.02, 0.02, 0.04]
    """
    names = list(range(len(p_values))) if tests is None else list(tests)
    known = {name: p for name, p in zip(names, p_values, strict=True) if p is not None}
    adjusted: dict[Hashable, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(known.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        adjusted[name] = highest
    return [None if p is None else adjusted[name] for name, p in zip(names, p_values, strict=True)]


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean of scores `[..., tasks, seeds]`: of the middle half of all of them `[...]`.

    >>> float(iqm(np.array([[0.0, 1.0, 2.0, 100.0]])))
    1.5
    """
    flat = scores.reshape(*scores.shape[:-2], -1)
    n = flat.shape[-1]
    cut = n // 4
    return np.partition(flat, (cut, n - cut - 1))[..., cut : n - cut].mean(-1)


def stratified(
    scores: np.ndarray, statistic=iqm, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """95 % percentile interval of a statistic of scores `[tasks, seeds]`, seeds drawn anew within every task.

    Args:
      scores: of one method.
      statistic: of stacks of scores `[draws, tasks, seeds]` -> `[draws]`.
      draws: how often.
      seed: of the draws.

    References:
      Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice, arXiv:2108.13264.
    """
    tasks, n = scores.shape
    picks = np.random.default_rng(seed).integers(0, n, (draws, tasks, n))
    low, high = np.quantile(
        statistic(scores[np.arange(tasks)[:, None], picks]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    )
    return float(low), float(high)


def profile(
    scores: np.ndarray, thresholds: np.ndarray, larger_is_better: bool = True
) -> np.ndarray:
    """Performance profile: the share of runs `[tasks, seeds]` that are better than each threshold."""
    sign = 1 if larger_is_better else -1
    return (sign * np.ravel(scores)[None, :] > sign * thresholds[:, None]).mean(1)


def ranks(scores: np.ndarray, larger_is_better: bool) -> np.ndarray:
    """Mean rank of methods over tasks, 1 the best, ties sharing; scores `[methods, tasks]`.

    >>> ranks(np.array([[0.9, 0.5], [0.8, 0.5]]), larger_is_better=True).tolist()
    [1.25, 1.75]
    """
    tasks = (-scores if larger_is_better else scores).T
    return np.array([_ranked(task) for task in tasks]).mean(0)


def _ranked(values: np.ndarray) -> np.ndarray:
    """Ranks of values `[n]`, the smallest 1, ties sharing their mean."""
    below, equal = values < values[:, None], values == values[:, None]
    return below.sum(1) + (equal.sum(1) + 1) / 2
