"""Two methods under the worst of several attacks: a test that chooses the attack anew under every exchange."""

import itertools

import numpy as np

EXACT = 13  # seeds up to which all exchanges are tried
DRAWN = 1 << 13  # exchanges that are drawn beyond
CHUNK = 1 << 10  # exchanges at a time
ROUNDING = 1e-9  # of the largest score, below which two statistics are the same


def exchanged(one: np.ndarray, other: np.ndarray) -> float:
    """The p of two methods whose scores `[seeds, attacks]` could as well be the other's, two-sided.

    What is tested is the difference of the two lowest mean scores, each under the attack that is worst for the method.
    The attack is chosen by the scores that it is tested on, and so it is under every exchange: that of the two methods'
    scores, under all attacks together, under some of the seeds. Exact up to 13 seeds; beyond, over 8,192 exchanges drawn
    with a fixed seed, the observed one counted in. Scores that are infinite count by their place among all.

    Args:
      one: scores of a method, the larger the better.
      other: of another, under the same seeds and attacks.

    >>> exchanged(np.array([[3.0, 2.0], [3.0, 2.5]]), np.array([[0.5, 1.0], [0.0, 1.0]]))
    0.5
    """
    scores = np.stack([one, other])
    if not np.isfinite(scores).all():
        scores = np.searchsorted(np.unique(scores), scores).astype(float)
    n = scores.shape[1]
    edge = abs(_gap(np.ones((1, n)), *scores)[0]) - ROUNDING * float(np.abs(scores).max())
    if n <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        return float(np.mean(np.abs(_gap(signs, *scores)) >= edge))
    signs = np.random.default_rng(0).choice((1.0, -1.0), (DRAWN, n))
    return float((np.sum(np.abs(_gap(signs, *scores)) >= edge) + 1) / (DRAWN + 1))


def _gap(signs: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Difference of the lowest mean scores, methods exchanged where a sign `[exchanges, seeds]` is -1 -> `[exchanges]`."""
    both = one.mean(0) + other.mean(0)  # [attacks], which no exchange changes
    parts = []
    for rows in np.array_split(signs, -(-len(signs) // CHUNK)):
        apart = rows @ (one - other) / len(one)  # [exchanges, attacks]
        parts.append((both + apart).min(1) - (both - apart).min(1))
    return np.concatenate(parts) / 2
