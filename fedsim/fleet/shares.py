"""How often a round has each client, on average, where cohort and fleet say so."""

from typing import Any

import numpy as np
from jaxtyping import Float

from fedsim.fleet.machines import Machines
from fedsim.fleet.selection import Cohort, Population


def shares(
    cohort: Cohort, population: Population, machines: Machines
) -> Float[np.ndarray, " N"] | None:
    """π_k, times that a round has a message of each client, on average; 0 of clients that cannot take part.

    What a cohort draws, times who can be reached, times who does not leave. None: unknown, as of cohorts that look at losses,
    of clients that come and go in a way that changes, or where a round leaves slow clients out.

    Args:
      cohort: who is drawn.
      population: of whom.
      machines: of a seed.
    """
    fleet, N = machines.fleet, machines.clients.N
    drawn = None if fleet.drops_slow else _drawn(cohort, population, machines)
    if drawn is None:
        return None
    return _of_all(population, drawn * max(1 - sum(fleet.dropout), 0), N)


def _drawn(cohort: Cohort, population: Population, machines: Machines) -> Any:
    """Times that a round draws each client of the population, on average; None: unknown."""
    if cohort.share is None or machines.fleet.availability is None:
        return None if cohort.share is None else cohort.share(population)
    reached = machines.reached_shares()
    if reached is None:
        return None
    reached = np.broadcast_to(reached, machines.clients.N)[population.ids]
    if np.all(reached == 1):
        return cohort.share(population)
    if cohort.ordered:  # rounds name their clients, whoever can be reached
        return cohort.share(population) * reached
    return None if cohort.thinned is None else cohort.thinned(population, reached)


def _of_all(population: Population, share: Any, N: int) -> Float[np.ndarray, " N"]:
    """By client."""
    of_all = np.zeros(N)
    of_all[population.ids] = share
    return of_all
