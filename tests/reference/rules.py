"""Rules that are means, each after its paper."""

import itertools

import numpy as np
import scipy.optimize

from reference.loop import Round


class Rule:
    """Reduces the clients' updates to what is added to x."""

    min_clients = 1  # with fewer clients the round changes nothing

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


class Effort(Rule):
    """Σ e_i Δ_i / Σ e_j, with the effort e_i that a client reports."""

    def reduce(self, round):
        return round.work @ round.updates / round.work.sum()


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
    """Li et al. 2020, Algorithm 2: −ΣΔ_k/Σh_k.

    Δ_k = F^q Δw, h_k = q F^{q−1}‖Δw‖² + L F^q, Δw = L (x − y), L = 1/η.
    """

    q = 1.5

    def reduce(self, round):
        L, F = 1 / round.lr, round.losses
        turned = -L * round.updates
        h = self.q * F ** (self.q - 1) * (turned**2).sum(1) + L * F**self.q
        return -(F**self.q) @ turned / h.sum()


class Term(Rule):
    """Li et al. 2021: Σ w_i Δ_i with w_i = n_i e^{t F_i} / Σ n_j e^{t F_j}."""

    t = 0.7

    def reduce(self, round):
        weights = round.counts * np.exp(self.t * round.losses)
        return weights @ round.updates / weights.sum()


class DeltaFL(Rule):
    """Pillutla et al. 2023: Σ π_i Δ_i, where π solves a linear program.

    max Σ π_i F_i over 0 ≤ π_i ≤ 1/(θ m), Σ π_i = 1.
    """

    theta = 0.35

    def reduce(self, round):
        m = len(round.losses)
        share = scipy.optimize.linprog(
            -round.losses, A_eq=np.ones((1, m)), b_eq=[1], bounds=(0, 1 / (self.theta * m))
        ).x
        return share @ round.updates


class Gifair(Rule):
    """Yue et al. 2021, as `GiFair` in the code of Zhang et al. 2022 (PropFair's authors)."""

    coeff = 0.8

    def reduce(self, round):
        num_clients = len(round.losses)
        weights = round.counts / round.counts.sum()
        lambda_max = min(weights / max(num_clients - 1, 1))
        weights_gi = np.zeros(num_clients)
        r = np.linspace(-(num_clients - 1), num_clients - 1, num=num_clients)
        weights_gi[np.argsort(round.losses)] = r
        return (weights + self.coeff * lambda_max * weights_gi) @ round.updates


class FedMGDA(Rule):
    """Hu et al. 2022: the point of least norm in the hull of Δ_i/‖Δ_i‖, over all its faces."""

    def reduce(self, round):
        lengths = np.linalg.norm(round.updates, axis=1)
        units = round.updates / np.where(lengths > 0, lengths, 1)[:, None]
        nearest = units[0]
        for size in range(1, len(units) + 1):
            for face in itertools.combinations(range(len(units)), size):
                point = _nearest_inside(units[list(face)])
                if point is not None and point @ point < nearest @ nearest:
                    nearest = point
        return nearest


def _nearest_inside(corners):
    """The point of least norm of a simplex with these corners; None if it is on its border."""
    first, edges = corners[0], corners[1:] - corners[0]
    along = np.linalg.lstsq(edges.T, -first, rcond=None)[0]
    inside = len(edges) == 0 or (along.min() >= 0 and along.sum() <= 1)
    return first + along @ edges if inside else None


class Agnostic(Rule):
    """Mohri et al. 2019: Σ λ_i Δ_i / Σ λ_i over S; λ ← Π(λ + γ F) over the N clients, from 1/N.

    F of clients outside S is unknown, and replaced by the mean over S.
    """

    rate = 0.02

    def __init__(self, x, able):
        super().__init__(x, able)
        self.mixture = {i: 1 / len(able) for i in able}

    def reduce(self, round):
        weights = np.array([self.mixture[i] for i in round.clients])
        losses = dict(zip(round.clients, round.losses, strict=True))
        above = {
            i: v + self.rate * losses.get(i, round.losses.mean()) for i, v in self.mixture.items()
        }
        self.mixture = dict(zip(above, onto_simplex(np.array(list(above.values()))), strict=True))
        return weights @ round.updates / weights.sum() if weights.sum() > 0 else 0 * round.x

    def server(self):
        return {"lambda": self.mixture}


class AgnosticFar(Agnostic):
    """Moves so fast that weights become 0."""

    rate = 0.3


def onto_simplex(v):
    """The nearest point with entries ≥ 0 and sum 1: max(v − t, 0), t by bisection."""
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(v - high, 0)
