"""FedCS: as many clients as finish in time."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def fedcs(
    seconds: Annotated[float, Gt(0)] = 60.0,
    candidates: Annotated[int, Ge(1)] = 30,
    size: Annotated[int, Ge(1)] | None = None,
) -> Cohort:
    """Of `candidates` randomly drawn clients all that finish within `seconds`, at most `size`.

    S = {k ∈ C : t_k ≤ seconds}, where t_k is how long a round takes client k. This is the largest
    set of candidates whose round ends in time, which the paper's greedy algorithm looks for. There,
    clients share the uplink and send one after another, so that the algorithm has to choose among
    them. Here each client has its own link and a round takes max t_k, so that all of them are
    taken. A round in which nobody is fast enough leaves the model unchanged.

    Clients that are too slow never take part, and the model learns nothing from their samples;
    `rounds_joined` in `clients.csv` shows which they are. Seconds depend on steps and bytes:
    methods that differ in these may have different cohorts.    Cost: O(N) on the host.

    Args:
      seconds: longest duration of a round.
      candidates: clients that are asked how long they would take, each set equally likely.
      size: largest number of clients, the fastest ones (ties: the lower id); left out: no limit.
    References:
      Nishio, Yonetani 2018, Client Selection for Federated Learning with Heterogeneous Resources in
      Mobile Edge, arXiv:1804.08333, Algorithm 3.
    """
    if size is not None and candidates < size:
        raise ValueError(f"{candidates} candidates for a cohort of {size}; write at least {size}")
    limit = seconds * (1 + 1e-12)  # a sum of seconds is rounded

    def draw(population: Population, round: int, rng: np.random.Generator):
        assert population.seconds is not None
        n = len(population.ids)
        drawn = np.sort(rng.choice(n, min(candidates, n), replace=False))
        fastest_first = drawn[np.argsort(population.seconds[drawn], kind="stable")]
        in_time = fastest_first[population.seconds[fastest_first] <= limit]
        return population.ids[in_time[:size]]

    def share(population: Population) -> np.ndarray:
        assert population.seconds is not None
        n = len(population.ids)
        return np.where(population.seconds <= limit, min(candidates, n) / n, 0.0)

    nominal = candidates if size is None else size
    return Cohort(
        draw,
        nominal=lambda N: nominal,
        needs=frozenset({"seconds"}),
        share=share if size is None else None,
    )
