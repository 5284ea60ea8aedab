"""Robust rules that select clients or values, each after its paper, or the code where noted."""

import itertools

import numpy as np

from reference.robust import geometric_median, krum_scores
from reference.rules import Rule


def nearest_mean(rows, centre, count: int):
    """The mean of each column's `count` values nearest to the centre; the first of equally near."""
    chosen = np.argsort(np.abs(rows - centre), axis=0, kind="stable")[:count]
    return np.take_along_axis(rows, chosen, 0).mean(0)


class Filter(Rule):
    f = 1
    min_clients = 3


class MeanAroundMedian(Filter):
    """Xie et al. 2018: the mean of each coordinate's m − f values nearest to the median."""

    def reduce(self, round):
        rows = round.updates
        return nearest_mean(rows, np.median(rows, 0), len(rows) - self.f)


class Phocas(Filter):
    """Xie et al. 2018: the mean of each coordinate's m − f values nearest to the trimmed mean."""

    def reduce(self, round):
        rows = round.updates
        return nearest_mean(
            rows, np.sort(rows, 0)[self.f : len(rows) - self.f].mean(0), len(rows) - self.f
        )


class Bulyan(Filter):
    """El Mhamdi et al. 2018: Krum m − 2f times without replacement, then near the median.

    The m − 4f values nearest to the median are averaged.
    """

    f = 0

    def reduce(self, round):
        left, chosen, f = list(range(len(round.updates))), [], self.f
        while len(chosen) < len(round.updates) - 2 * f:
            scores = (
                krum_scores(round.updates[left], f)
                if len(left) > f + 2
                else closest(round.updates[left])
            )
            chosen.append(left.pop(int(np.argmin(scores))))
        rows = round.updates[chosen]
        return nearest_mean(rows, np.median(rows, 0), len(rows) - 2 * f)


def closest(rows):
    """The squared distance to the nearest other row; 0 for a single row."""
    square = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    return np.array(
        [
            np.delete(row, i).min(initial=np.inf) if len(rows) > 1 else 0
            for i, row in enumerate(square)
        ]
    )


class SignMajority(Rule):
    """Bernstein et al. 2018: sign of the sum of signs."""

    def reduce(self, round):
        return np.sign(np.sign(round.updates).sum(0))


class RobustLearningRate(Rule):
    """Ozdayi et al. 2021: the mean by samples, reversed where the majority of signs is below θ."""

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
        return round.updates[
            list(min(subsets, key=lambda s: self.cost(round.updates[list(s)])))
        ].mean(0)


class SmallestEigenvalue(MinimumDiameter):
    """Allouah et al. 2023: the mean of the m − f rows with the least norm of the covariance."""

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
    """Shejwalkar and Houmansadr 2021, Algorithm 2, on all coordinates.

    The mean without the f rows that are farthest along the top singular direction.
    """

    def reduce(self, round):
        off = round.updates - round.updates.mean(0)
        far = (off @ np.linalg.svd(off)[2][0]) ** 2
        return round.updates[np.argsort(far, kind="stable")[: len(far) - self.f]].mean(0)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class FoolsGold(Rule):
    """Fung et al. 2020, as in DistributedML/FoolsGold on GitHub, deep-fg/fg/foolsgold.py."""

    def __init__(self, x, able):
        super().__init__(x, able)
        self.histories = {client: np.zeros_like(x) for client in range(max(able) + 1)}

    def reduce(self, round):
        for client, update in zip(round.clients, round.updates, strict=True):
            self.histories[client] = self.histories[client] + update
        weights = foolsgold_weights([self.histories[client] for client in round.clients])
        return sum(weight * update for weight, update in zip(weights, round.updates, strict=True))


def foolsgold_weights(histories) -> list[float]:
    """The clients' weights: similarities minus the identity, pardoning, rescaling, the logit."""
    clients = range(len(histories))
    similar = [
        [cosine(histories[i], histories[j]) - float(i == j) for j in clients] for i in clients
    ]
    most = [max(row) for row in similar]
    for i in clients:
        for j in clients:
            if i != j and most[i] < most[j]:
                similar[i][j] = similar[i][j] * most[i] / most[j]
    weights = [min(max(1 - max(row), 0), 1) for row in similar]
    largest = max(weights)
    return [logit_of(weight / largest) for weight in weights]


def cosine(a, b) -> float:
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def logit_of(weight: float) -> float:
    """ln(w/(1 − w)) + ½, clipped to [0, 1]; 1 is replaced by 0.99."""
    if weight == 0:
        return 0
    if weight == 1:
        weight = 0.99
    return min(max(np.log(weight / (1 - weight)) + 0.5, 0), 1)


def clusters(rows, stop):
    """Single linkage by the cosine distance, until `stop` accepts the list of clusters."""
    units = unit(rows)
    distance = 1 - units @ units.T
    found = [[i] for i in range(len(rows))]
    while not stop(found):
        pairs = itertools.combinations(range(len(found)), 2)
        a, b = min(pairs, key=lambda pair: distance[np.ix_(found[pair[0]], found[pair[1]])].min())
        found[a] = sorted(found[a] + found.pop(b))
    return found


class Flame(Rule):
    """Nguyen et al. 2022, Algorithm 1, on updates, without noise; clusters like HDBSCAN's here."""

    def reduce(self, round):
        rows, m = round.updates, len(round.updates)
        admitted = max(clusters(rows, lambda found: max(map(len, found)) > m // 2), key=len)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows * np.minimum(1, np.median(lengths) / lengths))[admitted].mean(0)


class LargestCluster(Rule):
    """Sattler et al. 2020: the larger of two clusters."""

    def reduce(self, round):
        pair = clusters(round.updates, lambda found: len(found) <= 2)
        return round.updates[min(pair, key=lambda cluster: (-len(cluster), cluster))].mean(0)


class Monna(Filter):
    """Farhadkhani et al. 2023: the mean of the m − f rows nearest to the first client's."""

    def reduce(self, round):
        rows = round.updates
        away = np.linalg.norm(rows - rows[np.argmin(round.clients)], axis=1)
        return rows[np.argsort(away, kind="stable")[: len(rows) - self.f]].mean(0)


class SignGuard(Rule):
    """Xu et al. 2022, Algorithm 2: rows of usual length in the largest cluster of sign shares."""

    def reduce(self, round):
        from sklearn.cluster import MeanShift, estimate_bandwidth

        rows = round.updates
        shares = np.array([[(row > 0).mean(), (row == 0).mean(), (row < 0).mean()] for row in rows])
        width = estimate_bandwidth(shares, quantile=0.5) if len(rows) > 1 else 0.0
        if width:
            labels = MeanShift(bandwidth=width * (1 + 1e-13)).fit(shares).labels_
        else:
            # scikit-learn refuses; equal points are a cluster, more positive signs come first
            labels = -np.unique(shares, axis=0, return_inverse=True)[1].reshape(-1)
            labels -= labels.min()
        lengths = np.linalg.norm(rows, axis=1)
        usual = np.median(lengths)
        kept = (
            (labels == np.bincount(labels).argmax())
            & (lengths >= 0.1 * usual)
            & (lengths <= 3 * usual)
        )
        return (
            (rows * np.minimum(1, usual / lengths)[:, None])[kept].mean(0)
            if kept.any()
            else 0 * round.x
        )


class ThreeSigma(Rule):
    """Han et al. 2023, section 4: a round's rows within μ + σ of the geometric median (λ = 1)."""

    def reduce(self, round):
        rows = round.updates
        if len(rows) == 1:
            return rows[0]
        away = np.linalg.norm(rows - geometric_median(rows, np.ones(len(rows))), axis=1)
        return rows[away <= away.mean() + away.std(ddof=1)].mean(0)


class AutoGM(Rule):
    """Li et al. 2021, Algorithm 1, with λ = 0.5: the weights by bisection for η."""

    lam = 0.5

    def reduce(self, round):
        rows = round.updates
        shares = np.ones(len(rows)) / len(rows)
        for _ in range(100):
            away = np.linalg.norm(rows - geometric_median(rows, shares), axis=1)
            low, high = away.min(), away.min() + self.lam + 1e-9
            for _ in range(200):
                eta = (low + high) / 2
                low, high = (
                    (eta, high) if np.maximum(eta - away, 0).sum() < self.lam else (low, eta)
                )
            shares = np.maximum(eta - away, 0) / self.lam
        return geometric_median(rows, shares)
