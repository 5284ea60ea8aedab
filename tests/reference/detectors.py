"""Rules that tell who is malicious from residuals, layers or histories, each after its paper."""

import numpy as np

from reference.rules import Rule


class ResidualReweighting(Rule):
    """Fu et al. 2019: weights from the residuals to the line of repeated medians, coordinate by coordinate."""

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
        slopes = [np.median([(ordered[k] - ordered[j]) / (k - j) for j in range(m) if j != k]) for k in range(m)]
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
    """Xu et al. 2024, Algorithm 1: clipped and sparse rows, filtered layer by layer; the layers end at `ends`."""

    sparsity, ends = 0.3, (2, 3)

    def reduce(self, round):
        rows = round.updates
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1, np.median(lengths) / np.where(lengths > 0, lengths, 1))
        least = np.sort(np.abs(rows), axis=1)[:, -max(int((1 - self.sparsity) * rows.shape[1] + 1e-9), 1), None]
        rows = np.where(np.abs(rows) >= least, rows, 0)
        return np.concatenate([self.layer(x) for x in np.split(rows, self.ends[:-1], axis=1)])

    def layer(self, x):
        positive, nonzero = (x > 0).sum(1), (x != 0).sum(1)
        share = np.where(nonzero > 0, positive / np.maximum(nonzero, 1), 0.5)
        inside = usual(np.linalg.norm(x, axis=1)) & usual(share)
        return x[inside if inside.any() else slice(None)].mean(0)


def usual(values, radius=1.0):
    """Less than so many standard deviations from the median; not those that are only so by rounding."""
    return (values.std() == 0) | (np.abs(values - np.median(values)) < radius * values.std() * (1 - 1e-12))
