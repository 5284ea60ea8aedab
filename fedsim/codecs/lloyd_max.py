"""Optimal quantisation values for the standard normal distribution, for a few bits."""

import functools
from itertools import pairwise
from math import erfc, exp, inf, pi, sqrt
from statistics import NormalDist

import numpy as np

NEWTON = 8
"""Steps; for 1 to 8 bits nothing but the last digits changes after the fifth."""


@functools.cache
def centroids(bits: int) -> tuple[float, ...]:
    """The 2^bits values of least mean squared error, ascending (Lloyd–Max).

    Each is the mean of the normal distribution between two thresholds, which are halfway between
    values. Newton's method finds the positive ones, from the values that are best for many bits,
    quantiles of the normal distribution of variance 3.

    >>> [round(c, 4) for c in centroids(2)]
    [-1.5104, -0.4528, 0.4528, 1.5104]
    """
    many = NormalDist(sigma=sqrt(3))
    half = 2 ** (bits - 1)
    c = np.array([many.inv_cdf((half + i + 0.5) / 2**bits) for i in range(half)])
    for _ in range(NEWTON):
        means, below, above = _means([0.0, *((c[1:] + c[:-1]) / 2), inf])
        slope = np.eye(half) - np.diag(np.r_[0, below[1:]] + np.r_[above[:-1], 0]) / 2
        slope -= (np.diag(below[1:], -1) + np.diag(above[:-1], 1)) / 2
        c = c - np.linalg.solve(slope, c - means)
    return (*(-c[::-1]).tolist(), *c.tolist())


def thresholds(bits: int) -> tuple[float, ...]:
    """Halfway between the values: which of them is nearest."""
    return tuple((a + b) / 2 for a, b in pairwise(centroids(bits)))


def _means(edges: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the normal distribution between edges, and their derivatives by either edge."""
    density = np.array([exp(-t * t / 2) / sqrt(2 * pi) for t in edges])
    share = -np.diff([erfc(t / sqrt(2)) / 2 for t in edges])
    means = -np.diff(density) / share
    lower, upper = (
        np.array(edges[:-1]),
        np.array([*edges[1:-1], 0.0]),
    )  # the density at infinity is 0
    return means, density[:-1] * (means - lower) / share, density[1:] * (upper - means) / share
