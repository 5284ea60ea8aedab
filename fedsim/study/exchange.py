"""A test of two methods, each under the attack that is worst for it.

Which attack is worst is decided by the scores that are tested, and the test accounts for that.
Scores of a method are `[seeds, attacks]`, the larger the better.
"""

from collections.abc import Callable

import numpy as np

from fedsim.study.statistics import signs

EXACT = 13  # seeds up to which all signs are tried
DRAWN = 1 << 13  # signs that are drawn if there are more seeds
CHUNK = 1 << 10  # signs that are evaluated at once
ROUNDING = 1e-9  # of the largest score: two statistics closer than this are the same


def worst_apart(one: np.ndarray, other: np.ndarray) -> float:
    """Return the two-sided p-value that two methods have the same lowest mean score over attacks.

    It is the larger of two p-values: that of `exchanged`, which is exact if nothing distinguishes
    the two methods, and twice that of `beyond`, for methods that differ under attacks other than
    their worst. If some scores are infinite, all of them are replaced by their ranks.
    """
    scores = np.stack([one, other])
    if not np.isfinite(scores).all():
        scores = np.searchsorted(np.unique(scores), scores).astype(float)
    better, worse = sorted(scores, key=lambda part: -part.mean(0).min())
    return min(1.0, max(exchanged(better, worse), 2 * beyond(better, worse)))


def exchanged(one: np.ndarray, other: np.ndarray) -> float:
    """Return the two-sided p-value that each method's scores could as well be the other's.

    The statistic is the difference of the two lowest mean scores. It is evaluated, with the attacks
    that are then worst, for every exchange of the two methods' scores: under some of the seeds, and
    then under all attacks together. Exact up to 13 seeds; beyond, it is the share among 8,192
    exchanges drawn with a fixed seed, to which the observed one is added.
    """
    both = one.mean(0) + other.mean(0)  # [attacks]; no exchange changes it

    def gap(flips: np.ndarray) -> np.ndarray:  # [exchanges, seeds] -> [exchanges]
        apart = flips @ (one - other) / len(one)  # [exchanges, attacks]
        return np.abs((both + apart).min(1) - (both - apart).min(1))

    largest = float(np.abs([one, other]).max())
    return _share(gap, len(one), ROUNDING * largest)


def beyond(one: np.ndarray, other: np.ndarray) -> float:
    """Return the one-sided p-value that the lowest mean score of a method is at most another's.

    It is above the other's if its scores under every attack are above the other's under some
    attack. So for each of its attacks the differences to all attacks of the other change their sign
    together, and the statistic is the largest mean difference over its root mean square, which
    accounts for choosing the other's attack. The attack with the largest p-value decides.
    """
    p_values = []
    for scores in one.T:  # [seeds], under one attack
        d = scores[:, None] - other  # [seeds, attacks of the other]
        size = np.sqrt(np.mean(d**2, 0))  # [attacks of the other]
        ratios = np.divide(d, size, out=np.zeros_like(d), where=size > 0)

        def largest(flips: np.ndarray, ratios: np.ndarray = ratios) -> np.ndarray:
            return (flips @ ratios).max(1) / len(ratios)  # [signs]

        p_values.append(_share(largest, len(d), ROUNDING))
    return max(p_values)


def _share(statistic: Callable[[np.ndarray], np.ndarray], n: int, rounding: float) -> float:
    """The share of signs whose statistic is at least the observed one, whose signs are all 1.

    Args:
      statistic: of signs `[signs, n]` -> `[signs]`.
      rounding: how much smaller a statistic may be and still count as equal.
    """
    observed = statistic(np.ones((1, n)))[0]
    edge = observed - rounding
    tried = signs(n, EXACT, DRAWN)
    chunk_count = -(-len(tried) // CHUNK)  # rounded up

    hits = 0
    for chunk in np.array_split(tried, chunk_count):
        hits += int(np.sum(statistic(chunk) >= edge))
    if n <= EXACT:
        return hits / len(tried)
    return (hits + 1) / (DRAWN + 1)
