"""Client methods that share state between clients, each after its paper's algorithm."""

import numpy as np

from reference.clients import Client


class Mime(Client):
    """Karimireddy et al. 2020 (Mime), Algorithm 1: U(g, s) with fixed s; s ← V(c, s) once a round.

    Base optimizer: momentum as an average, m ← β m + (1 − β) g, followed by the heavy ball
    b ← ρ b + m; s = (m, b).
    """

    beta, anchored = 0.8, True

    def start_run(self):
        self.m, self.ball, self.c = self.nothing, self.nothing, self.nothing

    def start_round(self, S, x):
        self.c = sum(self.gradient(j, x) for j in S) / len(S)

    def trained(self, i, x):
        y = x
        for _ in range(self.setting.steps[i]):
            g = self.gradient(i, y) - (self.gradient(i, x) - self.c if self.anchored else 0)
            m = self.beta * self.m + (1 - self.beta) * g
            d = m + self.setting.decay * y
            ball = self.setting.momentum * self.ball + d
            y = y - self.setting.lr * (
                d + self.setting.momentum * ball if self.setting.nesterov else ball
            )
        return y

    def finish_round(self, round):
        self.m = self.beta * self.m + (1 - self.beta) * self.c
        self.ball = self.setting.momentum * self.ball + self.m + self.setting.decay * round.x

    def server(self):
        return {"m": self.m, "probe": self.c}


class MimeLite(Mime):
    anchored = False


class FedLin(Client):
    """Mitra et al. 2021: steps η/τ_i along ∇f_i(y) − ∇f_i(x) + g.

    g is the mean gradient of the round's clients at the global model.
    """

    def start_round(self, S, x):
        self.g = sum(self.gradient(j, x) for j in S) / len(S)

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.gradient(i, x) + self.g

    def rate(self, i):
        return self.setting.lr / self.setting.steps[i]


class FedCM(Client):
    """Xu et al. 2021, Algorithm 1: v = α ∇f_i(y) + (1 − α) Δ_t; Δ_{t+1} = −(1/|S|) Σ Δ_i/(η K).

    Δ_{t+1} is taken before the server's step. The paper's K is the same for all; if K_i differ, the
    mean update is divided by their mean.
    """

    alpha = 0.3

    def start_run(self):
        self.d = self.nothing

    def direction(self, i, y, x):
        return self.alpha * self.gradient(i, y) + (1 - self.alpha) * self.d

    def finish_round(self, round):
        self.d = -round.updates.mean(0) / (round.lr * round.steps.mean())

    def server(self):
        return {"d": self.d}


class FedLion(Client):
    """Tang and Chang 2024: Lion on the clients, from a shared m; averages models and momenta."""

    b1, b2 = 0.9, 0.99

    def start_run(self):
        self.m = self.nothing

    def start_round(self, S, x):
        self.ends = []

    def trained(self, i, x):
        y, m = x, self.m
        for _ in range(self.setting.steps[i]):
            g = self.gradient(i, y)
            y = y - self.setting.lr * np.sign(self.b1 * m + (1 - self.b1) * g)
            m = self.b2 * m + (1 - self.b2) * g
        self.ends.append(m)
        return y

    def finish_round(self, round):
        self.m = sum(self.ends) / len(self.ends)

    def server(self):
        return {"m": self.m}
