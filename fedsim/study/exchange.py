"""Two methods, each under the attack that is worst for it: a test that knows that the attacks were chosen by the scores."""

import functools
import itertools
from collections.abc import Callable

import numpy as np

EXACT = 13  # seeds up to which all signs are tried
DRAWN = 1 << 13  # signs that are drawn beyond
CHUNK = 1 << 10  # of them at a time
ROUNDING = 1e-9  # of the largest score, below which two statistics are the same


def worst_apart(one: np.ndarray, other: np.ndarray) -> float:
    """The p of the lowest of a method's mean scores over attacks being that of another, two-sided.

    The larger one of two: that of `exchanged`, which is exact where nothing tells the two methods apart, and twice that
    of `beyond`, for methods that fare differently under other attacks than their worst.

    Args:
      one: scores of a method, `[seeds, attacks]`, the larger the better; infinite ones count by their place among all.
      other: of another, under the same seeds and attacks.

    >>> worst_apart(np.array([[3.0, 2.0], [3.0, 2.5]]), np.array([[0.5, 1.0], [0.0, 1.0]]))
    0.5
    """
    scores = np.stack([one, other])
    if not np.isfinite(scores).all():
        scores = np.searchsorted(np.unique(scores), scores).astype(float)
    better, worse = sorted(scores, key=lambda part: -part.mean(0).min())
    return min(1.0, max(exchanged(better, worse), 2 * beyond(better, worse)))


def exchanged(one: np.ndarray, other: np.ndarray) -> float:
    """The p of two methods whose scores `[seeds, attacks]` could as well be the other's, two-sided.

    What is tested is the difference of the two lowest mean scores. It is taken anew, with the attacks that are worst then,
    for every exchange of the two methods' scores, under all attacks together, under some of the seeds. Exact up to 13
    seeds; beyond, over 8,192 exchanges drawn with a fixed seed, the observed one counted in.
    """
    both = one.mean(0) + other.mean(0)  # [attacks], which no exchange changes

    def gap(signs: np.ndarray) -> np.ndarray:
        apart = signs @ (one - other) / len(one)  # [exchanges, attacks]
        return np.abs((both + apart).min(1) - (both - apart).min(1))

    return _share(gap, len(one), ROUNDING * float(np.abs([one, other]).max()))


def beyond(one: np.ndarray, other: np.ndarray) -> float:
    """The p of the lowest mean score of a method being at most that of another `[seeds, attacks]`, one-sided.

    It is beyond where its scores under every one of the attacks are above those of the other under some attack. For each of
    the first, the differences to all of the second change their sign together, and what counts is the largest mean over
    its root mean square, so that choosing the other's attack is paid for; the least sure attack decides.
    """
    p_values = []
    for scores in one.T:
        d = scores[:, None] - other  # [seeds, attacks of the other]
        size = np.sqrt(np.mean(d**2, 0))
        ratios = np.divide(d, size, out=np.zeros_like(d), where=size > 0)
        largest = lambda signs, ratios=ratios: (signs @ ratios).max(1) / len(ratios)
        p_values.append(_share(largest, len(d), ROUNDING))
    return max(p_values)


def _share(statistic: Callable[[np.ndarray], np.ndarray], n: int, rounding: float) -> float:
    """The share of signs `[signs, n]` that give a statistic at least as large as the observed one, whose signs are all 1."""
    edge = statistic(np.ones((1, n)))[0] - rounding
    signs = _signs(n)
    chunks = np.array_split(signs, -(-len(signs) // CHUNK))
    hits = int(sum(np.sum(statistic(chunk) >= edge) for chunk in chunks))
    return hits / len(signs) if n <= EXACT else (hits + 1) / (DRAWN + 1)


@functools.cache
def _signs(n: int) -> np.ndarray:
    """All signs of n seeds, or those that are drawn, `[signs, n]`."""
    if n <= EXACT:
        return np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    return np.random.default_rng(0).choice((1.0, -1.0), (DRAWN, n))
