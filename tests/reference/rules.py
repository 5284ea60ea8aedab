"""Rules, each after its paper, and what may stand behind them."""

import numpy as np

from reference.loop import Round


class Rule:
    """Clients' updates -> what is added to x."""

    least = 1  # with fewer clients the round changes nothing

    def __init__(self, x, able: list[int]):
        self.x0, self.able = x, able

    def reduce(self, round: Round):
        raise NotImplementedError

    def server(self) -> dict:
        return {}


class Samples(Rule):
    """McMahan et al. 2017: Σ n_i Δ_i / Σ n_j over the clients of the round."""

    def reduce(self, round):
        return round.counts @ round.updates / round.counts.sum()


class Uniform(Rule):
    """(1/|S|) Σ Δ_i."""

    def reduce(self, round):
        return round.updates.mean(0)


class Steps(Rule):
    """Σ K_i Δ_i / Σ K_j."""

    def reduce(self, round):
        return round.steps @ round.updates / round.steps.sum()


class Nova(Rule):
    """Wang et al. 2020, Theorem 1: τ_eff Σ p_i Δ_i/‖a_i‖₁ with τ_eff = Σ p_i ‖a_i‖₁."""

    def reduce(self, round):
        p = round.counts / round.counts.sum()
        return (p @ round.work) * ((p / round.work) @ round.updates)


class FedExP(Rule):
    """Jhunjhunwala et al. 2023, equation 8: max{1, Σ‖Δ_i‖²/(2m(‖Δ̄‖² + ε))} Δ̄."""

    eps = 1e-3

    def __init__(self, x, able):
        super().__init__(x, able)
        self.before = x

    def reduce(self, round):
        mean, m, self.before = round.updates.mean(0), len(round.updates), round.x
        return max(1, np.sum(round.updates**2) / (2 * m * (mean @ mean + self.eps))) * mean

    def server(self):
        return {"before": self.before}


class MeanOverAll(Rule):
    """(1/N) Σ_S Δ_i."""

    def reduce(self, round):
        return round.updates.sum(0) / round.N


class HorvitzThompson(Rule):
    """(N/m) Σ_S (n_i/n) Δ_i: a client is in S with probability m/N."""

    def reduce(self, round):
        return round.N / len(round.updates) * (round.counts @ round.updates) / round.n


class Dyn(Rule):
    """Acar et al. 2021, Algorithm 1: h ← h − (α/N) Σ_S (θ_i − x); x ← mean_S θ_i − h/α."""

    alpha = 0.4

    def __init__(self, x, able):
        super().__init__(x, able)
        self.h = np.zeros_like(x)

    def reduce(self, round):
        self.h = self.h - self.alpha / round.N * round.updates.sum(0)
        return round.updates.mean(0) - self.h / self.alpha

    def server(self):
        return {"h": self.h}


class QFair(Rule):
    """Li et al. 2020, Algorithm 2: −ΣΔ_k/Σh_k, Δ_k = F^q Δw, h_k = q F^{q−1}‖Δw‖² + L F^q, Δw = L (x − y), L = 1/η."""

    q = 1.5

    def reduce(self, round):
        L, F = 1 / round.lr, round.losses
        turned = -L * round.updates
        h = self.q * F ** (self.q - 1) * (turned**2).sum(1) + L * F**self.q
        return -(F**self.q) @ turned / h.sum()


class Agnostic(Rule):
    """Mohri et al. 2019: Σ λ_i Δ_i over S, by their sum; λ ← Π(λ + γ F) over the N clients that can take part, from 1/N.

    F of clients outside S is not known: the mean of S stands for it.
    """

    rate = 0.2

    def __init__(self, x, able):
        super().__init__(x, able)
        self.mixture = {i: 1 / len(able) for i in able}

    def reduce(self, round):
        part = np.array([self.mixture[i] for i in round.clients])
        met = dict(zip(round.clients, round.losses, strict=True))
        above = {i: v + self.rate * met.get(i, round.losses.mean()) for i, v in self.mixture.items()}
        self.mixture = dict(zip(above, onto_simplex(np.array(list(above.values()))), strict=True))
        return part @ round.updates / part.sum() if part.sum() > 0 else 0 * round.x

    def server(self):
        return {"lambda": self.mixture}


def onto_simplex(v):
    """The nearest point with entries ≥ 0 and sum 1: max(v − t, 0), t by bisection."""
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(v - high, 0)


class Median(Rule):
    """Yin et al. 2018: of every coordinate the middle value, or the mean of the two middle ones."""

    def reduce(self, round):
        return np.median(round.updates, axis=0)


class TrimmedMean(Rule):
    """Yin et al. 2018: of every coordinate the mean without the `trim` smallest and largest values."""

    trim = 1
    least = 3

    def reduce(self, round):
        return np.sort(round.updates, axis=0)[self.trim : len(round.updates) - self.trim].mean(0)


def krum_scores(updates, f: int):
    """Blanchard et al. 2017: the sum of squared distances to the m − f − 2 nearest others."""
    square = ((updates[:, None] - updates[None]) ** 2).sum(-1)
    return np.array([np.sort(np.delete(row, i))[: len(updates) - f - 2].sum() for i, row in enumerate(square)])


class Krum(Rule):
    f = 1
    least = 5

    def reduce(self, round):
        return round.updates[np.argmin(krum_scores(round.updates, self.f))]


class MultiKrum(Krum):
    """Mean of the m − f best."""

    def reduce(self, round):
        best = np.argsort(krum_scores(round.updates, self.f), kind="stable")
        return round.updates[best[: len(round.updates) - self.f]].mean(0)


class GeometricMedian(Rule):
    """argmin_v Σ ‖v − Δ_i‖: a row that holds itself against the pull of the others, or else by Newton's iteration."""

    def reduce(self, round):
        rows = round.updates
        for i, row in enumerate(rows):
            others = np.delete(rows, i, 0) - row
            pull = (others / np.linalg.norm(others, axis=1, keepdims=True)).sum(0)
            if np.linalg.norm(pull) <= 1:
                return row
        return minimum(rows)


def minimum(rows):
    """Where Σ ‖v − row‖ is least and smooth: Weiszfeld's iteration, then Newton's."""
    v = rows.mean(0)
    for k in range(230):
        away = v - rows
        length = np.linalg.norm(away, axis=1, keepdims=True)
        gradient = (away / length).sum(0)
        if k < 200:
            v = v - gradient / (1 / length).sum()
            continue
        unit = away / length
        curved = sum((np.eye(len(v)) - np.outer(u, u)) / r for u, r in zip(unit, length[:, 0], strict=True))
        v = v - np.linalg.solve(curved, gradient)
    assert np.linalg.norm(gradient) < 1e-9 * len(rows)
    return v


class RFA(Rule):
    """Pillutla et al. 2022, Algorithm 2: three steps from the mean, β_i = p_i/max(ν, ‖v − Δ_i‖) with p_i = n_i/Σ n_j."""

    nu, iterations = 1e-6, 3

    def reduce(self, round):
        v = round.counts @ round.updates / round.counts.sum()
        for _ in range(self.iterations):
            beta = round.counts / np.maximum(self.nu, np.linalg.norm(v - round.updates, axis=1))
            v = beta @ round.updates / beta.sum()
        return v


class CenteredClipping(Rule):
    """Karimireddy et al. 2021, Algorithm 2: v ← v + mean of (Δ_i − v) min(1, τ/‖Δ_i − v‖), from the last v."""

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


class Tail:
    """x ← x + η_g · aggregate."""

    def __init__(self, x, lr: float = 1.0):
        self.lr, self.m = lr, np.zeros_like(x)

    def step(self, aggregate):
        return self.lr * aggregate

    def server(self) -> dict:
        return {}


class FedAvgM(Tail):
    """Hsu, Qi, Brown 2019: Δw = −aggregate; v ← β v + Δw; x ← x − η_g v."""

    def __init__(self, x, lr=1.0, momentum=0.9):
        super().__init__(x, lr)
        self.v, self.momentum = np.zeros_like(x), momentum

    def step(self, aggregate):
        self.v = self.momentum * self.v - aggregate
        return -self.lr * self.v

    def server(self):
        return {"v": self.v}


class Moments(Tail):
    """Reddi et al. 2021, Algorithm 2: m ← β₁ m + (1 − β₁) Δ; x ← x + η m/(√v + τ); v starts at τ²."""

    b1, b2, tau = 0.9, 0.99, 1e-3

    def __init__(self, x, lr):
        super().__init__(x, lr)
        self.v = np.full_like(x, self.tau**2)

    def step(self, aggregate):
        self.m = self.b1 * self.m + (1 - self.b1) * aggregate
        self.v = self.grown(aggregate**2)
        return self.lr * self.m / (np.sqrt(self.v) + self.tau)

    def grown(self, square):
        raise NotImplementedError

    def server(self):
        return {"m": self.m, "v": self.v}


class FedAdagrad(Moments):
    b1 = 0.0

    def grown(self, square):
        return self.v + square


class FedAdam(Moments):
    def grown(self, square):
        return self.b2 * self.v + (1 - self.b2) * square


class FedYogi(Moments):
    def grown(self, square):
        return self.v - (1 - self.b2) * square * np.sign(self.v - square)
