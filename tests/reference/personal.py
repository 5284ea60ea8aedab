"""Client methods with models of the clients' own, each after its paper's algorithm."""

import numpy as np

from reference.clients import Client
from reference.problems import slope


class Personal(Client):
    """A client with one vector of its own, which begins as part of the start model.

    Attributes:
      name: what its row calls the vector.
      part: which parameters it has.
    """

    name = "v"
    part = slice(None)

    def start_run(self):
        self.own = dict.fromkeys(self.problem.able, self.problem.start[self.part])

    def memory(self, i):
        return {self.name: self.own[i]}

    def fresh(self, i):
        """Forget the optimizer's last round, unless it is carried."""
        if not self.setting.carry:
            self.v[i] = self.nothing


class Ditto(Personal):
    """Li et al. 2021, Algorithm 1: v ← v − η (∇f(v) + λ (v − x)), with the x of the round."""

    lam, personal_lr, personal_steps = 0.4, 0.15, 2

    def update(self, i, x):
        v = self.own[i]
        for _ in range(self.personal_steps):
            v = v - self.personal_lr * (self.gradient(i, v) + self.lam * (v - x))
        self.own[i] = v
        return super().update(i, x)


class PFedMe(Personal):
    """Dinh et al. 2020, Algorithm 1, with K plain steps towards the proximal point."""

    name = "theta"
    lam, personal_lr, K = 2.0, 0.1, 3

    def update(self, i, x):
        w, theta = x, x
        self.fresh(i)
        for _ in range(self.setting.steps[i]):
            for _ in range(self.K):
                theta = theta - self.personal_lr * (
                    self.gradient(i, theta) + self.lam * (theta - w)
                )
            w = w - self.rate(i) * self.smoothed(i, self.lam * (w - theta), w)
        self.own[i] = theta
        return w - x


class PerFedAvg(Client):
    """Fallah et al. 2020, first order: the gradient after a step of length α."""

    alpha = 0.2

    def direction(self, i, y, x):
        return self.gradient(i, y - self.alpha * self.gradient(i, y))


class APFL(Personal):
    """Deng et al. 2020, Algorithm 1, with α adapted in the first step of a round."""

    alpha0 = 0.4

    def start_run(self):
        super().start_run()
        self.alpha = dict.fromkeys(self.problem.able, self.alpha0)

    def update(self, i, x):
        y, v, a = x, self.own[i], self.alpha[i]
        self.fresh(i)
        for k in range(self.setting.steps[i]):
            g = self.gradient(i, a * v + (1 - a) * y)
            if k == 0:
                a = np.clip(a - self.rate(i) * (v - y) @ g, 0, 1)
            v = v - self.rate(i) * a * g
            y = y - self.rate(i) * self.smoothed(i, self.gradient(i, y), y)
        self.own[i], self.alpha[i] = v, a
        return y - x

    def memory(self, i):
        return {"v": self.own[i], "alpha": self.alpha[i]}


class FedRep(Personal):
    """Collins et al. 2021, Algorithm 1: the last three parameters are the head."""

    name, part = "head", slice(-3, None)
    head_steps = 2

    def update(self, i, x):
        y = np.concatenate([x[:-3], self.own[i]])
        head = np.arange(len(x)) >= len(x) - 3
        self.fresh(i)
        for moves, steps in ((head, self.head_steps), (~head, self.setting.steps[i])):
            for _ in range(steps):
                y = y - self.rate(i) * moves * self.smoothed(i, moves * self.gradient(i, y), y)
        self.own[i] = y[-3:]
        return np.concatenate([y[:-3] - x[:-3], np.zeros(3)])


class FedBABU(Client):
    """Oh et al. 2022: the last three parameters never move."""

    def trained(self, i, x):
        body = np.arange(len(x)) < len(x) - 3
        y = x
        if not self.setting.carry:
            self.v[i] = self.nothing
        for _ in range(self.setting.steps[i]):
            y = y - self.rate(i) * body * self.smoothed(i, body * self.gradient(i, y), y)
        return y


class Kept(Personal):
    """Plain training, in which some parameters stay with the client and the others are sent."""

    def update(self, i, x):
        kept = np.isin(np.arange(len(x)), np.arange(len(x))[self.part])
        begin = x.copy()
        begin[kept] = self.own[i]
        y = self.trained(i, begin)
        self.own[i] = y[kept]
        return np.where(kept, 0, y - x)


class LGFedAvg(Kept):
    """Liang et al. 2020: the first six parameters, the body, stay."""

    name, part = "body", slice(6)


class FedBN(Kept):
    """Li et al. 2021: the last three parameters, for the normalisation, stay."""

    name, part = "norm", slice(-3, None)


class MRMTL(Personal):
    """Liu et al. 2022: w ← w − η (∇f(w) + λ (w − x)), from the client's last w; sends w − x."""

    name = "w"
    lam = 0.4

    def update(self, i, x):
        self.center = x
        self.own[i] = self.trained(i, self.own[i])
        return self.own[i] - x

    def direction(self, i, y, x):
        return self.gradient(i, y) + self.lam * (y - self.center)


class FedRoD(Personal):
    """Chen & Chao 2022: a balanced softmax for the shared model, and a head beside its own."""

    name, part = "head", slice(-3, None)

    def start_run(self):
        self.own = dict.fromkeys(self.problem.able, np.zeros(3))

    def balanced(self, i, w):
        """The mean cross entropy under log n_c + outputs; classes without samples do not count."""
        x, y = self.problem.samples(i)
        counts = self.problem.labels(i)
        weighted = counts * np.exp(self.problem.outputs(w, x))
        return np.mean(np.log(weighted.sum(1)) - np.log(weighted[np.arange(len(y)), y]))

    def update(self, i, x):
        y, head = x, self.own[i]
        self.fresh(i)
        for _ in range(self.setting.steps[i]):
            both = np.concatenate([y[:-3], y[-3:] + head])
            head = head - self.rate(i) * self.gradient(i, both)[-3:]
            y = y - self.rate(i) * self.smoothed(i, slope(lambda w: self.balanced(i, w), y), y)
        self.own[i] = head
        return y - x


class FedALA(Personal):
    """Zhang et al. 2023, Algorithm 1, with a given number of steps on the weights."""

    part = slice(-3, None)
    weight_lr, weight_steps = 2.0, 2

    def start_run(self):
        super().start_run()
        self.weight = dict.fromkeys(self.problem.able, np.ones(3))

    def update(self, i, x):
        w, v = self.weight[i], self.own[i]
        apart = x[-3:] - v
        begin = lambda w: np.concatenate([x[:-3], v + apart * w])
        for _ in range(self.weight_steps):
            g = self.gradient(i, begin(w))[-3:]
            w = np.clip(w - self.weight_lr * g * apart, 0, 1)
        y = self.trained(i, begin(w))
        self.weight[i], self.own[i] = w, y[-3:]
        return y - x

    def memory(self, i):
        return {"v": self.own[i], "w": self.weight[i]}


class FedPAC(Personal):
    """Xu, Tong, Huang 2023, by the authors' `LocalUpdate_FedPAC` and `get_head_agg_weight`.

    The last six parameters are the head. Heads, statistics and prototypes of clients that are
    absent are their last ones.
    """

    name, part = "head", slice(-6, None)
    lam, head_epochs = 0.8, 2

    def start_run(self):
        super().start_run()
        self.vars, self.h_ref, self.protos = {}, {}, {}

    def start_round(self, S, x):
        self.mixed = {i: self.own[i] for i in S}
        for i in set(S) & set(self.vars):
            self.mixed[i] = self.mixture(i)
        self.global_protos = protos_aggregation(self.protos, self.problem)

    def mixture(self, i):
        """`get_head_agg_weight` and `agg_classifier_weighted_p`."""
        known = sorted(self.vars)
        apart = [self.h_ref[i] - self.h_ref[j] for j in known]
        dist = np.array([[np.trace(a.T @ b) for b in apart] for a in apart])
        alpha = least_on_the_simplex(np.diag([self.vars[j] for j in known]) + dist)
        alpha = alpha * (alpha > 1e-3)
        return sum(a * self.own[j] for a, j in zip(alpha, known, strict=True)) / alpha.sum()

    def by_class(self, i, y):
        """`get_local_protos`."""
        rows, labels = self.problem.samples(i)
        z = self.problem.features(y, rows)
        return {c: z[labels == c].mean(0) for c in set(labels.tolist())}

    def statistics_extraction(self, i, y):
        rows, labels = self.problem.samples(i)
        z, n = self.problem.features(y, rows), len(labels)
        v, h_ref = 0.0, np.zeros((3, 2))
        for c, mean in self.by_class(i, y).items():
            of_class = z[labels == c]
            py = len(of_class) / n
            h_ref[c] = py * mean
            v += py * np.trace(of_class.T @ of_class / len(of_class)) - py**2 * (mean * mean).sum()
        return v / n, h_ref

    def update(self, i, x):
        (rows, labels), p = self.problem.samples(i), self.problem
        y = np.concatenate([x[:-6], self.mixed[i]])
        statistics = self.statistics_extraction(i, y)
        local_protos = self.by_class(i, y)
        head = np.arange(len(x)) >= len(x) - 6
        self.fresh(i)
        for _ in range(self.head_epochs):
            y = y - self.rate(i) * head * self.smoothed(i, head * self.gradient(i, y), y)

        protos_new = np.array([self.global_protos.get(c, local_protos[c]) for c in labels.tolist()])
        lam = self.lam if self.global_protos else 0.0

        def loss(w):
            apart = np.mean((p.features(w, rows) - protos_new) ** 2)
            return p.cost(p.outputs(w, rows), labels) + lam * apart

        for _ in range(self.setting.steps[i]):
            y = y - self.rate(i) * ~head * self.smoothed(i, ~head * slope(loss, y), y)
        self.own[i], self.trained_body = y[-6:], y
        self.vars[i], self.h_ref[i] = statistics
        self.protos[i] = self.by_class(i, y)
        return y - x

    def memory(self, i):
        return {"head": self.own[i], "V": self.vars[i], "H": self.h_ref[i].ravel()}


class DBE(Personal):
    """Zhang et al. 2023, by `clientDBE` of PFLlib; its first two parameters are the bias.

    A client's first round is its initialization, and the model that it trains there counts.
    """

    part = slice(0, 2)
    kl_weight, momentum = 2.0, 0.3

    def start_run(self):
        super().start_run()
        self.running_mean = {}

    def start_round(self, S, x):
        self.global_mean = None
        if self.running_mean:
            n = np.array([self.problem.sizes[i] for i in self.running_mean])
            self.global_mean = n @ np.array(list(self.running_mean.values())) / n.sum()

    def update(self, i, x):
        (rows, labels), p = self.problem.samples(i), self.problem
        running_mean = np.zeros(2)
        y = np.concatenate([self.own[i], x[2:]])

        def loss(w):
            rep = p.features(w[2:], rows)
            cost = p.cost((rep + w[:2]) @ w[6:].reshape(2, 3), labels)
            if self.global_mean is None:
                return cost
            mean = (1 - self.momentum) * running_mean + self.momentum * rep.mean(0)
            return cost + self.kl_weight * np.mean(0.5 * (mean - self.global_mean) ** 2)

        moves = np.arange(len(x)) >= (2 if self.global_mean is None else 0)
        self.fresh(i)
        for _ in range(self.setting.steps[i]):
            rep = p.features(y[2:], rows)
            step = self.smoothed(i, moves * slope(loss, y), y)
            running_mean = (1 - self.momentum) * running_mean + self.momentum * rep.mean(0)
            y = y - self.rate(i) * step
        self.own[i] = y[:2]
        self.running_mean.setdefault(i, running_mean)
        return np.concatenate([np.zeros(2), y[2:] - x[2:]])


def protos_aggregation(protos, problem):
    """The mean of every class over the clients that have it, by their samples of it."""
    aggregated = {}
    for c in range(3):
        sizes = {i: problem.labels(i)[c] for i in protos if c in protos[i]}
        if sizes:
            total = sum(n * protos[i][c] for i, n in sizes.items())
            aggregated[c] = total / sum(sizes.values())
    return aggregated


def least_on_the_simplex(P):
    """argmin αᵀPα, the best of the minima over all sets of clients that share."""
    best, least = None, np.inf
    for members in range(1, 2 ** len(P)):
        chosen = [j for j in range(len(P)) if members >> j & 1]
        x = np.linalg.solve(P[np.ix_(chosen, chosen)], np.ones(len(chosen)))
        if (x < 0).any():
            continue
        alpha = np.zeros(len(P))
        alpha[chosen] = x / x.sum()
        if alpha @ P @ alpha < least:
            best, least = alpha, alpha @ P @ alpha
    return best


class FedAS(Personal):
    """Yang, Huang, Ye 2024, by `clientAS` of PFLlib; the last six parameters are the head."""

    name = "w"
    align_lr, align_epochs = 0.002, 2

    def start_run(self):
        super().start_run()
        self.fim_trace = {}

    def update(self, i, x):
        self.set_parameters(i, x)
        y = self.own[i] = self.trained(i, self.own[i])
        self.fim_trace[i] = (self.gradient(i, y) ** 2).sum()
        return np.concatenate([y[:-6] - x[:-6], np.zeros(6)])

    def set_parameters(self, i, model):
        (rows, labels), p = self.problem.samples(i), self.problem
        z = p.features(self.own[i], rows)
        mean_prototypes = {c: z[labels == c].mean(0) for c in set(labels.tolist())}

        def loss(w):
            z = p.features(w, rows)
            return sum(np.mean((z[labels == c] - m) ** 2) for c, m in mean_prototypes.items())

        for _ in range(self.align_epochs):
            model = model - self.align_lr * slope(loss, model)
        self.own[i] = np.concatenate([model[:-6], self.own[i][-6:]])

    def work(self, i):
        return self.fim_trace[i]
