"""HierFAVG on quadratics, in NumPy: plain loops over rounds, edges and clients."""

import numpy as np
from nodes import trained


def hierfavg(inputs, edges, cohorts, every, inner, outer, lr=0.1, steps=2):
    """Liu et al. 2020, Algorithm 1, where some clients stay away.

    Args:
      inputs: as of `nodes.problem`.
      edges: the clients of each.
      cohorts: the clients of each round.
      every: κ₂, rounds from one of the cloud to the next.
      inner: learning rate of the edges' servers.
      outer: learning rate and momentum of the cloud's.
      lr: of the clients.
      steps: of a client in a round, κ₁.

    Returns:
      The edges' models at the end `[k, D]`.
    """
    n = inputs["sizes"]
    cloud = inputs["x0"]
    x = [cloud for _ in edges]
    weight = [0 for _ in edges]  # samples that each edge has heard of since the cloud's last round
    m = np.zeros_like(cloud)
    for r, cohort in enumerate(cohorts, start=1):
        for g, members in enumerate(edges):
            active = [i for i in members if i in cohort]
            total = sum(n[i] for i in active)
            if total == 0:
                continue
            average = sum(n[i] * trained(inputs, i, x[g], lr, steps) for i in active) / total
            x[g] = (1 - inner) * x[g] + inner * average
            weight[g] += total
        if r % every == 0 and sum(weight) > 0:
            average = sum(w * model for w, model in zip(weight, x, strict=True)) / sum(weight)
            rate, beta = outer
            m = beta * m + average - cloud
            cloud = cloud + rate * m
            x = [cloud for _ in edges]
            weight = [0 for _ in edges]
    return np.array(x)
