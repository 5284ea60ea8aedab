"""The best values for a few bits of a number from the standard normal distribution."""

import functools
from itertools import pairwise
from math import erfc, exp, inf, pi, sqrt
from statistics import NormalDist

import numpy as np

NEWTON = 8
"""Steps of Newton's method; for 1 to 8 bits only the last digits change after the fifth."""


@functools.cache
def centroids(bits: int) -> tuple[float, ...]:
    """The 2^bits values of least mean squared error, ascending (Lloyd–Max).

    Each is the mean of the normal distribution between two thresholds, which are halfway between
    values. Newton's method finds the positive ones, from the values that are best for many bits,
    quantiles of the normal distribution of variance 3.

    >>> [round(c, 4) for c in centroids(2)]
    [-1.5104, -0.4528, 0.4528, 1.5104]
    """
    wide = NormalDist(sigma=sqrt(3))
    half = 2 ** (bits - 1)
    c = np.array([wide.inv_cdf((half + i + 0.5) / 2**bits) for i in range(half)])
    for _ in range(NEWTON):
        midpoints = (c[1:] + c[:-1]) / 2
        means, below, above = _means([0.0, *midpoints, inf])
        slope = np.eye(half) - np.diag(np.r_[0, below[1:]] + np.r_[above[:-1], 0]) / 2
        slope -= (np.diag(below[1:], -1) + np.diag(above[:-1], 1)) / 2
        c = c - np.linalg.solve(slope, c - means)
    return (*(-c[::-1]).tolist(), *c.tolist())


def thresholds(bits: int) -> tuple[float, ...]:
    """The midpoints between the values, which decide which value is nearest."""
    return tuple((a + b) / 2 for a, b in pairwise(centroids(bits)))


def _means(edges: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the means of the normal distribution between edges, and their derivatives.

    Returns:
      The means; their derivatives by the lower edge; by the upper edge.
    """
    density = np.array([exp(-t * t / 2) / sqrt(2 * pi) for t in edges])
    share = -np.diff([erfc(t / sqrt(2)) / 2 for t in edges])
    means = -np.diff(density) / share

    # The last edge is infinite, where the density is 0: any number will do.
    lower = np.array(edges[:-1])
    upper = np.array([*edges[1:-1], 0.0])
    by_lower = density[:-1] * (means - lower) / share
    by_upper = density[1:] * (upper - means) / share
    return means, by_lower, by_upper
