"""DivFL: clients whose updates represent those of all clients."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def divfl(size: Annotated[int, Ge(1)] = 10, candidates: Annotated[int, Ge(1)] = 30) -> Cohort:
    """The `size` of `candidates` clients whose last updates best represent those of all clients.

    Clients S are chosen one by one, each so that G(S) = Σ_k min_{i∈S} ‖Δ_k − Δ_i‖ over all clients
    k falls most (ties: the lower id). This is the greedy maximisation of a submodular function,
    facility location. Δ_k is the update of the last round in which k took part, replaced by a
    sketch of 64 numbers whose distances approximate those of the updates. Candidates are drawn anew
    in every round, each set equally likely.

    Clients that never took part come first, each set equally likely, so that the first rounds are
    one pass over all clients; clients whose last update was not finite come last. All count
    equally, as in the paper's Algorithm 1.

    Cohorts depend on updates, and so on the method.
    Cost: O(N · candidates) time and memory on the host; 256 bytes are stored per client.

    Args:
      size: clients per round.
      candidates: clients that may be chosen, at least `size`; with as many as there are clients,
        this is the paper's greedy choice.
    References:
      Balakrishnan et al. 2022, Diverse Client Selection for Federated Learning via Submodular
      Maximization, ICLR 2022 (with the updates of the last participation, as in its experiments);
      candidates: Mirzasoleiman et al. 2015, Lazier Than Lazy Greedy, arXiv:1409.7938.
    """
    if candidates < size:
        raise ValueError(f"{candidates} candidates for a cohort of {size}; write at least {size}")

    def draw(population: Population, round: int, rng: np.random.Generator):
        sketch = population.sketch
        assert sketch is not None
        m = min(size, len(sketch))

        # Clients that never took part come first.
        new = np.flatnonzero(np.isnan(sketch[:, 0]))
        if len(new) >= m:
            return population.ids[rng.choice(new, m, replace=False)]

        # Then the candidates that represent all clients best.
        finite = np.flatnonzero(np.isfinite(sketch).all(1))
        drawn = np.sort(rng.choice(finite, min(candidates, len(finite)), replace=False))
        count = min(m - len(new), len(drawn))
        chosen = drawn[facilities(sketch[finite], sketch[drawn], count)]

        # Then whoever is left, if a round would be too small.
        rest = np.setdiff1d(np.arange(len(sketch)), np.concatenate([new, chosen]))
        fill = rest[: m - len(new) - len(chosen)]
        return population.ids[np.concatenate([new, chosen, fill])]

    return Cohort(draw, lambda N: size, needs=frozenset({"sketch"}))


def facilities(points: np.ndarray, candidates: np.ndarray, count: int) -> list[int]:
    """Choose candidates greedily, so that every point is near one of them.

    Args:
      points: `[n, F]`.
      candidates: `[c, F]`.

    Returns:
      Positions of the chosen candidates, in the order in which they were chosen.

    >>> facilities(np.array([[0.0], [1.0], [9.0]]), np.array([[0.0], [1.0], [9.0]]), 2)
    [1, 2]
    """
    if not count:
        return []
    by_candidate = distances(points, candidates)  # [c, n]
    nearest = np.full(len(points), np.inf)  # distance to the nearest chosen candidate
    chosen: list[int] = []
    for _ in range(count):
        total = np.array([np.minimum(nearest, distance).sum() for distance in by_candidate])
        total[chosen] = np.inf
        best = int(total.argmin())
        chosen.append(best)
        nearest = np.minimum(nearest, by_candidate[best])
    return chosen


def distances(points: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Return the distances ‖points_k − candidates_i‖ `[c, n]`, up to a common factor.

    All numbers are divided by the largest one, so that no square overflows.
    """
    largest = max(float(np.abs(points).max(initial=0)), 1e-30)
    points = points / largest
    candidates = candidates / largest
    by_candidate = np.empty((len(candidates), len(points)))
    for i, candidate in enumerate(candidates):
        by_candidate[i] = np.sqrt(np.square(points - candidate).sum(1, dtype=float))
    return by_candidate
