"""Whole numbers in given proportions that sum to a given total."""

import numpy as np


def count_of(share: float, n: int) -> int:
    """Return how many of n a share is: the nearest whole number, the even one of two as near."""
    return round(share * n)


def apportion(quota: np.ndarray, total: int) -> np.ndarray:
    """Round quotas to whole numbers that sum to `total`.

    Every number is within one of its quota (largest remainders; ties: the lowest index).
    """
    counts = np.floor(quota).astype(np.int64)
    missing = total - int(counts.sum())
    largest_remainders = np.argsort(-(quota - counts), kind="stable")
    counts[largest_remainders[: max(missing, 0)]] += 1

    # Rounding errors may make quotas sum to more than `total`: take from the largest numbers.
    for _ in range(-missing):
        counts[np.argmax(counts)] -= 1
    return counts


def apportion_within(
    weight: np.ndarray, total: int, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return whole numbers that sum to `total`, proportional to `weight` within bounds.

    They are clip(λ·weight, low, high), with one λ that bisection finds, rounded by largest
    remainders. Requires Σ low ≤ total ≤ Σ high.
    """
    weight = np.maximum(weight, weight.max() * 1e-12)  # λ reaches all of them

    below = 0.0
    above = float((high / weight).max())
    for _ in range(200):
        middle = (below + above) / 2
        if middle in (below, above):
            break
        if np.clip(middle * weight, low, high).sum() <= total:
            below = middle
        else:
            above = middle

    quota = np.clip(below * weight, low, high)
    counts = np.floor(quota).astype(np.int64)
    can_grow = np.flatnonzero(counts < high)
    largest_remainders = np.argsort(-(quota - counts)[can_grow], kind="stable")
    missing = total - int(counts.sum())
    counts[can_grow[largest_remainders][:missing]] += 1
    return counts
