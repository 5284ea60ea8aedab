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
