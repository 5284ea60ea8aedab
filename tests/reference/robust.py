"""Robust rules, each after its paper."""

import numpy as np

from reference.rules import Rule


class Median(Rule):
    """Yin et al. 2018: each coordinate's middle value, or the mean of its two middle ones."""

    def reduce(self, round):
        return np.median(round.updates, axis=0)


class TrimmedMean(Rule):
    """Yin et al. 2018: each coordinate's mean without its `trim` smallest and largest values."""

    trim = 1
    min_clients = 3

    def reduce(self, round):
        return np.sort(round.updates, axis=0)[self.trim : len(round.updates) - self.trim].mean(0)


def krum_scores(updates, f: int):
    """Blanchard et al. 2017: the sum of squared distances to the m − f − 2 nearest others."""
    square = ((updates[:, None] - updates[None]) ** 2).sum(-1)
    return np.array(
        [np.sort(np.delete(row, i))[: len(updates) - f - 2].sum() for i, row in enumerate(square)]
    )


class Krum(Rule):
    f = 1
    min_clients = 5

    def reduce(self, round):
        return round.updates[np.argmin(krum_scores(round.updates, self.f))]


class MultiKrum(Krum):
    """Mean of the m − f best."""

    def reduce(self, round):
        best = np.argsort(krum_scores(round.updates, self.f), kind="stable")
        return round.updates[best[: len(round.updates) - self.f]].mean(0)


class GeometricMedian(Rule):
    """argmin_v Σ ‖v − Δ_i‖: a row that the others cannot pull away, or by Newton's iteration."""

    def reduce(self, round):
        return geometric_median(round.updates, np.ones(len(round.updates)))


def geometric_median(rows, weights):
    """argmin_v Σ w_i ‖v − row_i‖."""
    rows, weights = rows[weights > 0], weights[weights > 0]
    for i, row in enumerate(rows):
        others = np.delete(rows, i, 0) - row
        pull = (
            np.delete(weights, i)[:, None] * others / np.linalg.norm(others, axis=1, keepdims=True)
        ).sum(0)
        if np.linalg.norm(pull) <= weights[i]:
            return row
    return minimum(rows, weights[:, None])


def minimum(rows, weights):
    """The minimum of Σ w ‖v − row‖ where it is smooth: by Weiszfeld's iteration, then Newton's."""
    v = (weights * rows).sum(0) / weights.sum()
    for k in range(230):
        away = v - rows
        length = np.linalg.norm(away, axis=1, keepdims=True)
        gradient = (weights * away / length).sum(0)
        if k < 200:
            v = v - gradient / (weights / length).sum()
            continue
        unit = away / length
        scales = (weights / length)[:, 0]
        curved = sum(
            c * (np.eye(len(v)) - np.outer(u, u)) for u, c in zip(unit, scales, strict=True)
        )
        v = v - np.linalg.solve(curved, gradient)
    assert np.linalg.norm(gradient) < 1e-9 * len(rows)
    return v


class RFA(Rule):
    """Pillutla et al. 2022, Algorithm 2: three steps from the mean.

    β_i = p_i/max(ν, ‖v − Δ_i‖) with p_i = n_i/Σ n_j.
    """

    nu, iterations = 1e-6, 3

    def reduce(self, round):
        v = round.counts @ round.updates / round.counts.sum()
        for _ in range(self.iterations):
            beta = round.counts / np.maximum(self.nu, np.linalg.norm(v - round.updates, axis=1))
            v = beta @ round.updates / beta.sum()
        return v


class CenteredClipping(Rule):
    """Karimireddy et al. 2021, Algorithm 2: v ← v + mean of (Δ_i − v) min(1, τ/‖Δ_i − v‖)."""

    radius, iterations = 0.15, 2

    def __init__(self, x, able):
        super().__init__(x, able)
        self.v = np.zeros_like(x)

    def reduce(self, round):
        for _ in range(self.iterations):
            away = round.updates - self.v
            length = np.linalg.norm(away, axis=1, keepdims=True)
            self.v = self.v + (away * np.minimum(1, self.radius / length)).mean(0)
        return self.v
