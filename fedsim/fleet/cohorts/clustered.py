"""Clustered sampling: draws with replacement whose number of times each is drawn varies less."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def clustered(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """`size` draws, each from a cluster of its own; on average client k is drawn size · n_k / Σ n times, as by `weighted`.

    Client k has size · n_k balls. In the order of falling n_k (ties by id), they fill `size` urns of Σ n balls each, one after
    another; one ball of each urn is drawn. A client with n_k ≥ Σ n / size is drawn in every round, and nobody's number of
    draws varies more than by `weighted`. With uniform weights an unbiased estimate: `mean(weights: uniform)`.

    Cost: O(N log N) on the host.

    Args:
      size: draws per round, and clusters.
    References:
      Fraboni et al. 2021, Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in Federated
      Learning, arXiv:2105.05883, Algorithm 1.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        order = np.argsort(-population.samples, kind="stable")
        ends, urn = np.cumsum(size * population.samples[order]), population.samples.sum()
        balls = np.arange(size) * urn + rng.integers(urn, size=size)
        return population.ids[order[np.searchsorted(ends, balls, side="right")]]

    return Cohort(draw, lambda N: size, repeats=True, share=lambda p: size * p.samples / p.samples.sum())
