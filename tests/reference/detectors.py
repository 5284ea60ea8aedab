"""Rules that detect malicious clients by residuals, layers or histories, each after its paper."""

import numpy as np

from reference.rules import Rule


class ResidualReweighting(Rule):
    """Fu et al. 2019, as in the authors' code: weights from residuals to repeated medians.

    There, `repeated_median` and `reweight_algorithm_restricted`, for each coordinate: K = λ √(2/m),
    e = r/τ, root/e · clip(e/root, ±K), times its standard deviation. Their τ has a further 1e-7.
    """

    lam, threshold = 2.0, 0.1

    def reduce(self, round):
        rows, m = round.updates, len(round.updates)
        if m < 3:
            return rows.mean(0)
        pairs = [self.column(rows[:, d], m) for d in range(rows.shape[1])]
        values, shares = (np.array(part).T for part in zip(*pairs, strict=True))
        weights = shares.sum(1) ** 2
        return (weights @ values) / weights.sum() if weights.any() else rows.mean(0)

    def column(self, x, m):
        ordered, rank = np.sort(x), np.argsort(np.argsort(x, kind="stable"))
        slopes = [
            np.median([(ordered[k] - ordered[j]) / (k - j) for j in range(m) if j != k])
            for k in range(m)
        ]
        slope = np.median(slopes)
        line = np.median(x) - slope * (m - 1) / 2 + slope * rank
        residual = x - line
        tau = 1.4826 * (1 + 5 / (m - 1)) * np.median(np.sort(np.abs(residual))[1:])
        X = np.stack([np.ones(m), rank], 1)
        root = np.sqrt(1 - np.diag(X @ np.linalg.inv(X.T @ X) @ X.T))
        reach = self.lam * np.sqrt(2 / m)
        with np.errstate(divide="ignore", invalid="ignore"):
            e = residual / tau / root
            w = np.where(residual == 0, 1, np.clip(e, -reach, reach) / e)
        return np.where(w < self.threshold, line, x), w * w.std(ddof=1)


class Lasa(Rule):
    """Xu et al. 2024, Algorithm 1: clipped and sparse rows, filtered layer by layer.

    The layers end at `ends`.
    """

    sparsity, ends = 0.3, (2, 3)

    def reduce(self, round):
        rows = round.updates
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1, np.median(lengths) / np.where(lengths > 0, lengths, 1))
        least = np.sort(np.abs(rows), axis=1)[
            :, -max(int((1 - self.sparsity) * rows.shape[1] + 1e-9), 1), None
        ]
        rows = np.where(np.abs(rows) >= least, rows, 0)
        return np.concatenate([self.layer(x) for x in np.split(rows, self.ends[:-1], axis=1)])

    def layer(self, x):
        positive, nonzero = (x > 0).sum(1), (x != 0).sum(1)
        share = np.where(nonzero > 0, positive / np.maximum(nonzero, 1), 0.5)
        inside = usual(np.linalg.norm(x, axis=1)) & usual(share)
        return x[inside if inside.any() else slice(None)].mean(0)


def usual(values, radius=1.0):
    """Whether values are clearly within `radius` standard deviations of the median."""
    return (values.std() == 0) | (
        np.abs(values - np.median(values)) < radius * values.std() * (1 - 1e-12)
    )


def quasi_newton(pairs):
    """B from σ I by BFGS updates, as a matrix; the authors' `lbfgs` has its compact form."""
    s, y = pairs[-1]
    B = (y @ s) / (s @ s) * np.eye(len(s))
    for s, y in pairs:
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (y @ s)
    return B


def dispersion(values, k: int):
    """Return the least sum of squares around k centres, and the last value of the lower cluster."""
    values = np.sort(values)
    around = lambda cluster: ((cluster - cluster.mean()) ** 2).sum()
    if k == 1:
        return around(values), None
    sums = [around(values[:i]) + around(values[i:]) for i in range(1, len(values))]
    return min(sums), values[np.argmin(sums)]


def upper(values, among):
    """Which of `among` are in the upper of two clusters, by the gap statistic in `detection1`."""
    v = values[among]
    if len(v) < 3 or np.ptp(v) == 0:
        return np.zeros(len(values), bool)
    v = (v - v.min()) / np.ptp(v)
    uniform = np.random.default_rng(0).random((len(values), 10)).T[:, among]
    with np.errstate(divide="ignore"):
        logs = {k: np.log([dispersion(u, k)[0] for u in uniform]) for k in (1, 2)}
        gaps = {k: np.log(np.mean(np.exp(logs[k]))) - np.log(dispersion(v, k)[0]) for k in (1, 2)}
    is_upper = np.zeros(len(values), bool)
    if gaps[1] < gaps[2] - np.sqrt(1.1) * logs[2].std():
        is_upper[np.flatnonzero(among)[v > dispersion(v, 2)[1]]] = True
    return is_upper


class FLDetector(Rule):
    """Zhang et al. 2022, Algorithms 1 and 2: the mean without the upper of two clusters of scores.

    Scores are distances to predictions by L-BFGS over a window. The paper divides distances by
    their sum; fedsim and this reference divide by their median.
    """

    window, clients = 2, 9

    def __init__(self, x, able):
        super().__init__(x, able)
        self.last, self.pairs, self.before = {}, [], None
        self.scores = {i: [] for i in range(self.clients)}
        self.suspected, self.able = np.zeros(self.clients, bool), len(able)

    def reduce(self, round):
        B = quasi_newton(self.pairs) if self.pairs else np.zeros((len(round.x), len(round.x)))
        away = {}
        for i, update in zip(round.clients, round.updates, strict=True):
            if i in self.last:
                last, at = self.last[i]
                away[i] = np.linalg.norm(update - last + B @ (round.x - at))
            self.last[i] = update, round.x
        for i, d in away.items():
            self.scores[i].append(d / np.median(list(away.values())))
        means = np.array(
            [np.mean(self.scores[i][-self.window :] or [0]) for i in range(self.clients)]
        )
        full = np.array([len(self.scores[i]) >= self.window for i in range(self.clients)])
        self.suspected = upper(means, full & (2 * full.sum() > self.able))
        kept = [not self.suspected[i] for i in round.clients]
        if not any(kept):
            return 0 * round.x
        mean = round.updates[kept].mean(0)
        if self.before:
            s, y = round.x - self.before[0], self.before[1] - mean
            if s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
                self.pairs = [*self.pairs, (s, y)][-self.window :]
        self.before = round.x, mean
        return mean

    def server(self):
        return {"suspected": dict(enumerate(self.suspected.astype(float)))}
