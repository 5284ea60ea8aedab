"""Client methods that keep no state between rounds, each after its paper's algorithm."""

import numpy as np

from reference.loop import Round, Setting
from reference.problems import Problem


class Client:
    """Plain local training (McMahan et al. 2017): K_i steps from y = x; sends y − x.

    A step is y ← y − η v with v ← ρ v + g.
    """

    def __init__(self, problem: Problem, setting: Setting):
        self.problem, self.setting = problem, setting
        zero = lambda: {i: np.zeros_like(problem.start) for i in problem.able}
        self.zero, self.nothing, self.v = zero, np.zeros_like(problem.start), zero()
        self.start_run()

    def start_run(self):
        """Set the states at the start of the run."""

    def start_round(self, S: list[int], x):
        """Do what happens before the clients of a round train."""

    def gradient(self, i: int, y):
        return self.problem.gradient(i, y)

    def direction(self, i: int, y, x):
        """The input of the optimizer in a step."""
        return self.gradient(i, y)

    def rate(self, i: int) -> float:
        return self.setting.lr

    def horizon(self, i: int) -> float:
        """K_i η."""
        return self.setting.steps[i] * self.setting.lr

    def smoothed(self, i: int, direction, y):
        """d = g + λ y; v ← ρ v + d; v, or d + ρ v with Nesterov."""
        d = direction + self.setting.decay * y
        self.v[i] = self.setting.momentum * self.v[i] + d
        return d + self.setting.momentum * self.v[i] if self.setting.nesterov else self.v[i]

    def trained(self, i: int, x):
        y = x
        if not self.setting.carry:
            self.v[i] = self.nothing
        for _ in range(self.setting.steps[i]):
            y = y - self.rate(i) * self.smoothed(i, self.direction(i, y, x), y)
        return y

    def update(self, i: int, x):
        """What client i sends."""
        return self.trained(i, x) - x

    def work(self, i: int) -> float:
        """‖a_i‖₁ as the client reports it: its steps."""
        return self.setting.steps[i]

    def finish_round(self, round: Round):
        """Do what the server does in addition to the rule."""

    def server(self) -> dict:
        return {}

    def memory(self, i: int) -> dict:
        return {}


class PropFair(Client):
    """Zhang et al. 2022: steps along the gradient of −log_ε(M − f_i)."""

    baseline, epsilon = 0.6, 0.3

    def direction(self, i, y, x):
        gain = self.baseline - self.problem.loss(i, y)
        return self.gradient(i, y) / max(gain, self.epsilon)


class FedProx(Client):
    """Li et al. 2020, Algorithm 2, with gradient steps on f_i(y) + μ/2 ‖y − x‖²."""

    mu = 0.3

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.mu * (y - x)


class FedSGD(Client):
    """McMahan et al. 2017, section 2: one step along ∇f_i(x)."""

    def trained(self, i, x):
        self.v[i] = self.nothing
        return x - self.setting.lr * self.smoothed(i, self.gradient(i, x), x)

    def work(self, i):
        return 1


class FedNova(Client):
    """Wang et al. 2020, section 4: y − x = −η Σ_k a_k g_k, with momentum and a proximal term.

    The a_k are computed step by step: v and y − x are represented by their coefficients of g_0,
    g_1, ... (of g_k + λ x with weight decay).
    """

    mu = 0.3

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.mu * (y - x)

    def work(self, i):
        K, lr = self.setting.steps[i], self.setting.lr
        v, moved = np.zeros(K), np.zeros(K)
        for k in range(K):
            d = np.eye(K)[k] + (self.mu + self.setting.decay) * moved
            v = self.setting.momentum * v + d
            moved = moved - lr * (d + self.setting.momentum * v if self.setting.nesterov else v)
        return np.abs(moved / lr).sum()


class FedSAM(Client):
    """Qu et al. 2022: the gradient at y + ρ g/‖g‖."""

    rho = 0.2

    def direction(self, i, y, x):
        g = self.gradient(i, y)
        return self.gradient(i, y + self.rho * g / np.linalg.norm(g))


class DeltaSGD(Client):
    """Kim et al. 2024, Algorithm 1: steps whose lengths adapt to the local smoothness.

    η_k = min{γ‖y_k − y_{k−1}‖/(2‖g_k − g_{k−1}‖), √(1 + δ θ_{k−1}) η_{k−1}}.
    """

    gamma, delta, eta0, theta0 = 1.0, 0.3, 0.05, 1.0

    def trained(self, i, x):
        y, eta, theta, before = x, self.eta0, self.theta0, None
        if not self.setting.carry:
            self.v[i] = self.nothing
        for _ in range(self.setting.steps[i]):
            g = self.gradient(i, y)
            if before is not None:
                smooth = (
                    self.gamma * np.linalg.norm(y - before[0]) / (2 * np.linalg.norm(g - before[1]))
                )
                new = min(smooth, np.sqrt(1 + self.delta * theta) * eta)
                theta, eta = new / eta, new
            before = y, g
            y = y - eta * self.smoothed(i, g, y)
        return y
