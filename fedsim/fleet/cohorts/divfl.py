"""DivFL: clients whose updates stand for those of all the others."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def divfl(size: Annotated[int, Ge(1)] = 10, candidates: Annotated[int, Ge(1)] = 30) -> Cohort:
    """The `size` of `candidates` clients whose last updates lie nearest to the last updates of all clients together.

    Clients S are chosen one after another, each so that G(S) = Σ_k min_{i∈S} ‖Δ_k − Δ_i‖ over all clients k falls
    most (ties to the lower id): greedy maximisation of a submodular function, the facility location. Δ_k is the
    update of the last round in which k took part, by a sketch of 64 numbers whose distances are about those of the
    updates. Candidates are drawn anew in every round, each set equally likely.

    Clients that never took part come first, each set equally likely, so that the first rounds are one pass over all
    clients; those whose last update was not finite come last. All count alike, as in the paper's Algorithm 1.

    Cohorts depend on updates, and so on the method.
    Cost: O(N · candidates) on the host, of time and of memory; 256 bytes a client are kept.

    Args:
      size: clients per round.
      candidates: that may be chosen, at least `size`; as many as there are clients: the paper's greedy choice.
    References:
      Balakrishnan et al. 2022, Diverse Client Selection for Federated Learning via Submodular Maximization, ICLR 2022
      (with the updates of the last participation, as its experiments); candidates: Mirzasoleiman et al. 2015, Lazier
      Than Lazy Greedy, arXiv:1409.7938.
    """
    if candidates < size:
        raise ValueError(f"{candidates} candidates for a cohort of {size}; write at least {size}")

    def draw(population: Population, round: int, rng: np.random.Generator):
        sketch = population.sketch
        assert sketch is not None
        m, new = min(size, len(sketch)), np.isnan(sketch[:, 0])
        first = np.flatnonzero(new)
        if len(first) >= m:
            return population.ids[rng.choice(first, m, replace=False)]
        finite = np.flatnonzero(np.isfinite(sketch).all(1))
        drawn = np.sort(rng.choice(finite, min(candidates, len(finite)), replace=False))
        chosen = drawn[facilities(sketch[finite], sketch[drawn], min(m - len(first), len(drawn)))]
        rest = np.setdiff1d(np.arange(len(sketch)), np.concatenate([first, chosen]))
        return population.ids[np.concatenate([first, chosen, rest[: m - len(first) - len(chosen)]])]

    return Cohort(draw, lambda N: size, needs=frozenset({"sketch"}))


def facilities(points: np.ndarray, candidates: np.ndarray, count: int) -> list[int]:
    """Greedy choice of so many candidates that the sum of distances from every point to the nearest of them is small.

    >>> facilities(np.array([[0.0], [1.0], [9.0]]), np.array([[0.0], [1.0], [9.0]]), 2)
    [1, 2]
    """
    if not count:
        return []
    away = distances(points, candidates)
    nearest, chosen = np.full(len(points), np.inf), []
    for _ in range(count):
        left = np.array([np.minimum(nearest, column).sum() for column in away])
        left[chosen] = np.inf
        chosen.append(int(left.argmin()))
        nearest = np.minimum(nearest, away[chosen[-1]])
    return chosen


def distances(points: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """‖points_k − candidates_i‖ `[candidates, points]`, over the largest number, so that no square overflows."""
    largest = max(float(np.abs(points).max(initial=0)), 1e-30)
    points, candidates = points / largest, candidates / largest
    away = np.empty((len(candidates), len(points)))
    for i, candidate in enumerate(candidates):
        away[i] = np.sqrt(np.square(points - candidate).sum(1, dtype=float))
    return away
