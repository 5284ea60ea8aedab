"""Robust rules that choose among clients or among values, each after its paper."""

import itertools

import numpy as np

from reference.robust import krum_scores
from reference.rules import Rule


def nearest_mean(rows, centre, count: int):
    """Of every column the mean of the `count` values nearest to the centre, the first of equal ones."""
    chosen = np.argsort(np.abs(rows - centre), axis=0, kind="stable")[:count]
    return np.take_along_axis(rows, chosen, 0).mean(0)


class Filter(Rule):
    f = 1
    least = 3


class MeanAroundMedian(Filter):
    """Xie et al. 2018: of every coordinate the m − f values nearest to the median."""

    def reduce(self, round):
        rows = round.updates
        return nearest_mean(rows, np.median(rows, 0), len(rows) - self.f)


class Phocas(Filter):
    """Xie et al. 2018: of every coordinate the m − f values nearest to the mean without f at either end."""

    def reduce(self, round):
        rows = round.updates
        return nearest_mean(rows, np.sort(rows, 0)[self.f : len(rows) - self.f].mean(0), len(rows) - self.f)


class Bulyan(Filter):
    """El Mhamdi et al. 2018: Krum m − 2f times without putting back, then the m − 4f values nearest to the median."""

    f = 0

    def reduce(self, round):
        left, chosen, f = list(range(len(round.updates))), [], self.f
        while len(chosen) < len(round.updates) - 2 * f:
            scores = krum_scores(round.updates[left], f) if len(left) > f + 2 else closest(round.updates[left])
            chosen.append(left.pop(int(np.argmin(scores))))
        rows = round.updates[chosen]
        return nearest_mean(rows, np.median(rows, 0), len(rows) - 2 * f)


def closest(rows):
    """Squared distance to the nearest other row; 0 of one alone."""
    square = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    return np.array([np.delete(row, i).min(initial=np.inf) if len(rows) > 1 else 0 for i, row in enumerate(square)])


class SignMajority(Rule):
    """Bernstein et al. 2018: sign of the sum of signs."""

    def reduce(self, round):
        return np.sign(np.sign(round.updates).sum(0))


class RobustLearningRate(Rule):
    """Ozdayi et al. 2021: the mean by samples, reversed where fewer than θ more clients agree than not."""

    threshold = 3

    def reduce(self, round):
        agreed = np.abs(np.sign(round.updates).sum(0)) >= self.threshold
        return np.where(agreed, 1, -1) * (round.counts @ round.updates) / round.counts.sum()


class MinimumDiameter(Filter):
    """El Mhamdi et al. 2019: the mean of the m − f rows with the least diameter."""

    def cost(self, rows):
        return max((np.linalg.norm(a - b) for a, b in itertools.combinations(rows, 2)), default=0)

    def reduce(self, round):
        subsets = itertools.combinations(range(len(round.updates)), len(round.updates) - self.f)
        return round.updates[list(min(subsets, key=lambda s: self.cost(round.updates[list(s)])))].mean(0)


class SmallestEigenvalue(MinimumDiameter):
    """Allouah et al. 2023: that whose covariance has the smallest largest eigenvalue."""

    def cost(self, rows):
        off = rows - rows.mean(0)
        return np.linalg.eigvalsh(off.T @ off / len(rows))[-1]


class CovarianceFilter(Filter):
    """Allouah et al. 2025, Algorithm 2."""

    def reduce(self, round):
        rows, c, best = round.updates, np.ones(len(round.updates)), (np.inf, round.updates.mean(0))
        while c.sum() > len(rows) - 2 * self.f:
            mean = c @ rows / c.sum()
            off = rows - mean
            values, vectors = np.linalg.eigh((off.T * c) @ off / c.sum())
            best = min(best, (values[-1], mean), key=lambda pair: pair[0])
            tau = np.where(c > 0, (off @ vectors[:, -1]) ** 2, 0)
            c = np.where(tau < tau.max(), c * (1 - tau / tau.max()), 0)
        return best[1]


class DivideAndConquer(Filter):
    """Shejwalkar and Houmansadr 2021, Algorithm 2, of all coordinates: without the f rows farthest along the top direction."""

    def reduce(self, round):
        off = round.updates - round.updates.mean(0)
        far = (off @ np.linalg.svd(off)[2][0]) ** 2
        return round.updates[np.argsort(far, kind="stable")[: len(far) - self.f]].mean(0)
