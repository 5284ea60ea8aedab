"""FedCS: as many clients as are done in time."""

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
    """Of `candidates` clients drawn at random all that would be done in `seconds`, at most `size`.

    S = {k ∈ C : t_k ≤ seconds}, with the seconds t_k that a round takes client k: the largest set of candidates
    whose round is over in time, which is what the paper's greedy algorithm looks for. There, clients share the
    uplink and send one after another, so that it weighs whom to take; here each has a link of its own, a round
    takes max t_k, and it takes them all. A round in which nobody is fast enough leaves the model as it is.

    Clients that are too slow never take part, and the model learns nothing from their samples: `rounds_joined` in
    `clients.csv` says who they are.    Seconds depend on steps and bytes: methods that differ in these may have other cohorts.
    Cost: O(N) on the host.

    Args:
      seconds: of a round, at most.
      candidates: clients that are asked how long they would take, each set equally likely.
      size: how many of them may come, the fastest (ties to the lower id); left out: all.
    References:
      Nishio, Yonetani 2018, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge,
      arXiv:1804.08333, Algorithm 3.
    """
    if size is not None and candidates < size:
        raise ValueError(f"{candidates} candidates for a cohort of {size}; write at least {size}")

    def draw(population: Population, round: int, rng: np.random.Generator):
        assert population.seconds is not None
        n = len(population.ids)
        candidate = np.sort(rng.choice(n, min(candidates, n), replace=False))
        fast = candidate[np.argsort(population.seconds[candidate], kind="stable")]
        return population.ids[fast[population.seconds[fast] <= seconds * (1 + 1e-12)][:size]]

    def share(population: Population) -> np.ndarray:
        n = len(population.ids)
        return np.where(population.seconds <= seconds * (1 + 1e-12), min(candidates, n) / n, 0.0)  # type: ignore[operator]

    nominal = candidates if size is None else size
    return Cohort(
        draw, lambda N: nominal, needs=frozenset({"seconds"}), share=share if size is None else None
    )
