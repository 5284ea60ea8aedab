"""Client methods that change the loss, each after its paper's equations."""

import numpy as np

from reference.clients import Client
from reference.problems import slope


class FedLC(Client):
    """Zhang et al. 2022: cross entropy of outputs z_c − τ n_{i,c}^(−1/4), with n ≥ 1e-8."""

    tau = 0.5

    def gradient(self, i, y):
        (x, labels), p = self.problem.samples(i), self.problem
        margin = self.tau * np.maximum(p.labels(i), 1e-8) ** -0.25
        return slope(lambda w: p.cost(p.outputs(w, x) - margin, labels), y)


class FedRS(Client):
    """Li and Zhan 2021: outputs of classes without samples at the client are multiplied by α."""

    alpha = 0.5

    def gradient(self, i, y):
        (x, labels), p = self.problem.samples(i), self.problem
        factor = np.where(p.labels(i) > 0, 1, self.alpha)
        return slope(lambda w: p.cost(p.outputs(w, x) * factor, labels), y)


class FedNTD(Client):
    """Lee et al. 2022: + β T² KL(p_x ‖ p_y); p is the softmax of outputs/T over wrong classes."""

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
    """Li, He, Song 2021, equation 4: a contrastive loss of features.

    + μ times −log of the softmax of cos(z, z_x)/T against cos(z, z_last)/T. Until a client has sent
    a model, its last one is the run's first, as in the authors' code.
    """

    mu, temperature = 0.8, 0.5

    def start_run(self):
        self.last = dict.fromkeys(self.problem.able, self.problem.start)

    def direction(self, i, y, x):
        (rows, labels), p = self.problem.samples(i), self.problem
        length = lambda z: np.sqrt((z * z).sum(1))

        def like(w, other):
            z, fixed = p.features(w, rows), p.features(other, rows)
            return np.exp((z * fixed).sum(1) / (length(z) * length(fixed)) / self.temperature)

        def objective(w):
            shared, before = like(w, x), like(w, self.last[i])
            return p.cost(p.outputs(w, rows), labels) - self.mu * np.mean(
                np.log(shared / (shared + before))
            )

        return slope(objective, y)

    def update(self, i, x):
        y = self.trained(i, x)
        self.last[i] = y
        return y - x

    def memory(self, i):
        return {"last": self.last[i]}


class FedProto(Client):
    """Tan et al. 2022, Algorithm 1: a client's model, and the mean features of its classes.

    The prototypes of all clients are the means over those that each sent last, by their samples.
    """

    lam = 0.8

    def start_run(self):
        self.w = dict.fromkeys(self.problem.able, self.problem.start)
        self.last = {i: (np.zeros(3), np.zeros((3, 2))) for i in self.problem.able}
        self.start_round([], self.problem.start)

    def start_round(self, S, x):
        self.count = sum(count for count, _ in self.last.values())
        self.total = sum(count[:, None] * mean for count, mean in self.last.values())

    def direction(self, i, y, x):
        (rows, labels), p = self.problem.samples(i), self.problem
        self.seen.append(p.features(y, rows))
        known = self.count[labels] > 0
        centres = self.total[labels] / np.maximum(self.count[labels], 1)[:, None]

        def objective(w):
            apart = ((p.features(w, rows) - centres) ** 2).mean(1)
            return p.cost(p.outputs(w, rows), labels) + self.lam * (known * apart).mean()

        return slope(objective, y)

    def update(self, i, x):
        self.seen = []
        self.w[i] = self.trained(i, self.w[i])
        labels, z = self.problem.samples(i)[1], np.mean(self.seen, axis=0)
        means = [z[labels == c].mean(0) if (labels == c).any() else np.zeros(2) for c in range(3)]
        self.last[i] = (self.problem.labels(i), np.array(means))
        return 0 * x

    def server(self):
        self.start_round([], None)
        return {"prototypes": np.append(self.count, self.total) / len(self.problem.able)}

    def memory(self, i):
        count, mean = self.last[i]
        return {"w": self.w[i], "prototypes": np.append(count, count[:, None] * mean)}


class FedPer(Client):
    """Arivazhagan et al. 2019: the last three parameters stay with the client, v_i.

    It sends the difference of the others.
    """

    def start_run(self):
        self.head = dict.fromkeys(self.problem.able, self.problem.start[-3:])

    def update(self, i, x):
        y = self.trained(i, np.concatenate([x[:-3], self.head[i]]))
        self.head[i] = y[-3:]
        return np.concatenate([y[:-3] - x[:-3], np.zeros(3)])

    def memory(self, i):
        return {"head": self.head[i]}
