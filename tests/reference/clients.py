"""Client methods, each after its paper's algorithm."""

import numpy as np

from reference.loop import Round, Setting
from reference.problems import Problem, slope


class Client:
    """Plain local training (McMahan et al. 2017): K_i steps y ← y − η v with v ← ρ v + g, from y = x; sends y − x."""

    def __init__(self, problem: Problem, setting: Setting):
        self.problem, self.setting = problem, setting
        zero = lambda: {i: np.zeros_like(problem.start) for i in problem.able}
        self.zero, self.nothing, self.v = zero, np.zeros_like(problem.start), zero()
        self.began()

    def began(self):
        """States at the start of the run."""

    def meet(self, S: list[int], x):
        """What happens before the clients of a round train."""

    def gradient(self, i: int, y):
        return self.problem.gradient(i, y)

    def direction(self, i: int, y, x):
        """What the optimizer is given in a step."""
        return self.gradient(i, y)

    def rate(self, i: int) -> float:
        return self.setting.lr

    def horizon(self, i: int) -> float:
        """K_i η."""
        return self.setting.steps[i] * self.setting.lr

    def smoothed(self, i: int, direction):
        """v ← ρ v + g."""
        self.v[i] = self.setting.momentum * self.v[i] + direction
        return self.v[i]

    def trained(self, i: int, x):
        y = x
        if not self.setting.carry:
            self.v[i] = self.nothing
        for _ in range(self.setting.steps[i]):
            y = y - self.rate(i) * self.smoothed(i, self.direction(i, y, x))
        return y

    def update(self, i: int, x):
        """What client i sends."""
        return self.trained(i, x) - x

    def work(self, i: int) -> float:
        """‖a_i‖₁ as the client reports it: its steps."""
        return self.setting.steps[i]

    def close(self, round: Round):
        """What the server does besides the rule."""

    def server(self) -> dict:
        return {}

    def memory(self, i: int) -> dict:
        return {}


class FedProx(Client):
    """Li et al. 2020, Algorithm 2, with gradient steps on f_i(y) + μ/2 ‖y − x‖²."""

    mu = 0.3

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.mu * (y - x)


class FedSGD(Client):
    """McMahan et al. 2017, section 2: one step along ∇f_i(x)."""

    def trained(self, i, x):
        return x - self.setting.lr * self.gradient(i, x)

    def work(self, i):
        return 1


class Scaffold(Client):
    """Karimireddy et al. 2020, Algorithm 1; c and all c_i start at 0."""

    option = 2

    def began(self):
        self.c, self.c_i = self.nothing, self.zero()

    def meet(self, S, x):
        self.changes = []

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.c_i[i] + self.c

    def update(self, i, x):
        y = self.trained(i, x)
        new = self.gradient(i, x) if self.option == 1 else self.c_i[i] - self.c + (x - y) / self.horizon(i)
        self.changes.append(new - self.c_i[i])
        self.c_i[i] = new
        return y - x

    def close(self, round):
        self.c = self.c + sum(self.changes) / round.N

    def server(self):
        return {"c": self.c}

    def memory(self, i):
        return {"c_i": self.c_i[i]}


class ScaffoldI(Scaffold):
    option = 1


class FedDyn(Client):
    """Acar et al. 2021, Algorithm 1, with gradient steps on f_i(θ) − ⟨g_i, θ⟩ + α/2 ‖θ − x‖²; all g_i start at 0."""

    alpha = 0.4

    def began(self):
        self.g_i = self.zero()

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.g_i[i] + self.alpha * (y - x)

    def update(self, i, x):
        y = self.trained(i, x)
        self.g_i[i] = self.g_i[i] - self.alpha * (y - x)
        return y - x

    def memory(self, i):
        return {"g_i": self.g_i[i]}


class FedNova(Client):
    """Wang et al. 2020, section 4: y − x = −η Σ_k a_k g_k, with the a_k of heavy-ball momentum and a proximal term.

    The a_k are followed step by step: v and y − x are kept as their coefficients of g_0, g_1, ...
    """

    mu = 0.3

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.mu * (y - x)

    def work(self, i):
        K, lr = self.setting.steps[i], self.setting.lr
        v, moved = np.zeros(K), np.zeros(K)
        for k in range(K):
            v = self.setting.momentum * v + np.eye(K)[k] + self.mu * moved
            moved = moved - lr * v
        return np.abs(moved / lr).sum()


class Mime(Client):
    """Karimireddy et al. 2020 (Mime), Algorithm 1: U(g, s) with s held still, s ← V(c, s) once a round.

    Base optimizer: momentum as an average, m ← β m + (1 − β) g, and behind it the heavy ball b ← ρ b + m; s = (m, b).
    """

    beta, anchored = 0.8, True

    def began(self):
        self.m, self.ball, self.c = self.nothing, self.nothing, self.nothing

    def meet(self, S, x):
        self.c = sum(self.gradient(j, x) for j in S) / len(S)

    def trained(self, i, x):
        y = x
        for _ in range(self.setting.steps[i]):
            g = self.gradient(i, y) - (self.gradient(i, x) - self.c if self.anchored else 0)
            m = self.beta * self.m + (1 - self.beta) * g
            y = y - self.setting.lr * (self.setting.momentum * self.ball + m)
        return y

    def close(self, round):
        self.m = self.beta * self.m + (1 - self.beta) * self.c
        self.ball = self.setting.momentum * self.ball + self.m

    def server(self):
        return {"m": self.m, "first": self.c}


class MimeLite(Mime):
    anchored = False


class FedLin(Client):
    """Mitra et al. 2021: steps η/τ_i along ∇f_i(y) − ∇f_i(x) + g, with g the mean gradient of the round's clients at x."""

    def meet(self, S, x):
        self.g = sum(self.gradient(j, x) for j in S) / len(S)

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.gradient(i, x) + self.g

    def rate(self, i):
        return self.setting.lr / self.setting.steps[i]


class FedCM(Client):
    """Xu et al. 2021, Algorithm 1: v = α ∇f_i(y) + (1 − α) Δ_t; Δ_{t+1} = −(1/|S|) Σ Δ_i/(η K), before the server's step.

    The paper's K is the same for all; of clients that differ, the mean update is divided by their mean K.
    """

    alpha = 0.3

    def began(self):
        self.d = self.nothing

    def direction(self, i, y, x):
        return self.alpha * self.gradient(i, y) + (1 - self.alpha) * self.d

    def close(self, round):
        self.d = -round.updates.mean(0) / (round.lr * round.steps.mean())

    def server(self):
        return {"d": self.d}


class FedLion(Client):
    """Tang and Chang 2024: Lion's step and momentum on the clients, from the shared m; models and momenta are averaged."""

    b1, b2 = 0.9, 0.99

    def began(self):
        self.m = self.nothing

    def meet(self, S, x):
        self.ends = []

    def trained(self, i, x):
        y, m = x, self.m
        for _ in range(self.setting.steps[i]):
            g = self.gradient(i, y)
            y = y - self.setting.lr * np.sign(self.b1 * m + (1 - self.b1) * g)
            m = self.b2 * m + (1 - self.b2) * g
        self.ends.append(m)
        return y

    def close(self, round):
        self.m = sum(self.ends) / len(self.ends)

    def server(self):
        return {"m": self.m}


class FedDC(Client):
    """Gao et al. 2022, Algorithm 1, with gradient steps; g, the mean of all g_i, moves by (1/N) Σ of how they changed.

    L = f_i(θ) + α/2 ‖θ + h_i − x‖² + ⟨θ, g_i − g⟩/(η K); then h_i ← h_i + θ − x and g_i ← θ − x; x ← mean of θ + h_i.
    """

    alpha = 0.3

    def began(self):
        self.h, self.g_i, self.g = self.zero(), self.zero(), self.nothing

    def meet(self, S, x):
        self.changes = []

    def direction(self, i, y, x):
        turn = (self.g_i[i] - self.g) / self.horizon(i)
        return self.gradient(i, y) + self.alpha * (y + self.h[i] - x) + turn

    def update(self, i, x):
        y = self.trained(i, x)
        self.h[i] = self.h[i] + y - x
        self.changes.append(y - x - self.g_i[i])
        self.g_i[i] = y - x
        return y + self.h[i] - x

    def close(self, round):
        self.g = self.g + sum(self.changes) / round.N

    def server(self):
        return {"g": self.g}

    def memory(self, i):
        return {"h": self.h[i], "g": self.g_i[i]}


class FedADMM(Client):
    """Gong, Li, Freris 2022, Algorithm 1: y_i = x_0 and λ_i = 0 at the start of the run, for everybody.

    Steps on f_i(y) + ⟨λ_i, y − x⟩ + ρ/2 ‖y − x‖² from y = x; λ_i ← λ_i + ρ (y − x); sends the change of y_i + λ_i/ρ.
    """

    rho = 0.5

    def began(self):
        self.y, self.dual = dict.fromkeys(self.problem.able, self.problem.start), self.zero()

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.dual[i] + self.rho * (y - x)

    def update(self, i, x):
        before = self.y[i] + self.dual[i] / self.rho
        self.y[i] = self.trained(i, x)
        self.dual[i] = self.dual[i] + self.rho * (self.y[i] - x)
        return self.y[i] + self.dual[i] / self.rho - before

    def memory(self, i):
        return {"y": self.y[i], "dual": self.dual[i]}


class Scaffnew(Client):
    """Mishchenko et al. 2022 (ProxSkip), Algorithm 2: y ← y − η (∇f_i(y) − h_i); h_i ← h_i + (x_new − y)/(K η).

    p = 1/K, as K steps are taken between communications. A client gets x_new when it takes part again.
    """

    def began(self):
        self.h, self.sent = self.zero(), {}

    def meet(self, S, x):
        for i in set(S) & set(self.sent):
            self.h[i] = self.h[i] + (x - self.sent[i]) / self.horizon(i)

    def direction(self, i, y, x):
        return self.gradient(i, y) - self.h[i]

    def update(self, i, x):
        self.sent[i] = self.trained(i, x)
        return self.sent[i] - x

    def memory(self, i):
        return {"h": self.h[i], "y": self.sent[i]}


class FedSAM(Client):
    """Qu et al. 2022: the gradient at y + ρ g/‖g‖."""

    rho = 0.2

    def direction(self, i, y, x):
        g = self.gradient(i, y)
        return self.gradient(i, y + self.rho * g / np.linalg.norm(g))


class DeltaSGD(Client):
    """Kim et al. 2024, Algorithm 1: η_k = min{γ‖y_k − y_{k−1}‖/(2‖g_k − g_{k−1}‖), √(1 + δ θ_{k−1}) η_{k−1}}."""

    gamma, delta, eta0, theta0 = 1.0, 0.3, 0.05, 1.0

    def trained(self, i, x):
        y, eta, theta, before = x, self.eta0, self.theta0, None
        if not self.setting.carry:
            self.v[i] = self.nothing
        for _ in range(self.setting.steps[i]):
            g = self.gradient(i, y)
            if before is not None:
                smooth = self.gamma * np.linalg.norm(y - before[0]) / (2 * np.linalg.norm(g - before[1]))
                new = min(smooth, np.sqrt(1 + self.delta * theta) * eta)
                theta, eta = new / eta, new
            before = y, g
            y = y - eta * self.smoothed(i, g)
        return y


class FedLC(Client):
    """Zhang et al. 2022: cross entropy of outputs z_c − τ n_{i,c}^(−1/4); classes without samples count as 1e-8."""

    tau = 0.5

    def gradient(self, i, y):
        (x, labels), p = self.problem.samples(i), self.problem
        margin = self.tau * np.maximum(p.labels(i), 1e-8) ** -0.25
        return slope(lambda w: p.cost(p.outputs(w, x) - margin, labels), y)


class FedRS(Client):
    """Li and Zhan 2021: outputs of classes that the client has no sample of are multiplied by α."""

    alpha = 0.5

    def gradient(self, i, y):
        (x, labels), p = self.problem.samples(i), self.problem
        factor = np.where(p.labels(i) > 0, 1, self.alpha)
        return slope(lambda w: p.cost(p.outputs(w, x) * factor, labels), y)


class FedNTD(Client):
    """Lee et al. 2022: + β T² KL(p_x ‖ p_y) of the softmax of outputs/T over the classes that are not the true one."""

    beta, temperature = 0.7, 1.5

    def direction(self, i, y, x):
        (rows, labels), p = self.problem.samples(i), self.problem
        others = np.array([[c for c in range(3) if c != label] for label in labels])

        def log_p(w):
            z = np.take_along_axis(p.outputs(w, rows), others, 1) / self.temperature
            return z - np.log(np.exp(z).sum(1, keepdims=True))

        def objective(w):
            kl = (np.exp(log_p(x)) * (log_p(x) - log_p(w))).sum(1).mean()
            return p.cost(p.outputs(w, rows), labels) + self.beta * self.temperature**2 * kl

        return slope(objective, y)


class Moon(Client):
    """Li, He, Song 2021, equation 4: + μ times −log of the softmax of cos(z, z_x)/T against cos(z, z_last)/T."""

    mu, temperature = 0.8, 0.5

    def began(self):
        self.last = {}

    def meet(self, S, x):
        for i in S:
            self.last.setdefault(i, x)

    def direction(self, i, y, x):
        (rows, labels), p = self.problem.samples(i), self.problem
        length = lambda z: np.sqrt((z * z).sum(1))

        def like(w, other):
            z, fixed = p.features(w, rows), p.features(other, rows)
            return np.exp((z * fixed).sum(1) / (length(z) * length(fixed)) / self.temperature)

        def objective(w):
            shared, before = like(w, x), like(w, self.last[i])
            return p.cost(p.outputs(w, rows), labels) - self.mu * np.mean(np.log(shared / (shared + before)))

        return slope(objective, y)

    def update(self, i, x):
        y = self.trained(i, x)
        self.last[i] = y
        return y - x

    def memory(self, i):
        return {"last": self.last[i]}
