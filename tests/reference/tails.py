"""Server steps after a rule, each after its paper."""

import numpy as np


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
    """Reddi et al. 2021, Algorithm 2: m ← β₁ m + (1 − β₁) Δ; x ← x + η m/(√v + τ); v_0 = τ²."""

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
