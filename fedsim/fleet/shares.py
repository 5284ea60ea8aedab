"""How often a round has each client on average, where cohort and fleet determine it."""

from typing import Any

import numpy as np
from jaxtyping import Float

from fedsim.fleet.machines import Machines
from fedsim.fleet.selection import Cohort, Population


def shares(
    cohort: Cohort, population: Population, machines: Machines
) -> Float[np.ndarray, " N"] | None:
    """Return π_k, how many messages a round has of each client on average.

    It is how often the cohort draws the client, times the probability that it is reached, times the
    probability that it does not leave; 0 for clients that cannot take part.

    Args:
      population: the clients that can be drawn.
      machines: their machines, for one seed.

    Returns:
      The shares; None where they are unknown: for cohorts that look at losses, for availability
      that changes from round to round, and for fleets that leave slow clients out.
    """
    if machines.stays is None:
        return None
    drawn = _drawn_shares(cohort, population, machines)
    if drawn is None:
        return None

    of_all_clients = np.zeros(machines.clients.N)
    of_all_clients[population.ids] = drawn * machines.stays
    return of_all_clients


def _drawn_shares(cohort: Cohort, population: Population, machines: Machines) -> Any:
    """Return how often a round draws each client of the population, on average; None: unknown."""
    if cohort.share is None:
        return None
    reached = machines.reached_shares()
    if reached is None:
        return None
    reached = np.broadcast_to(reached, machines.clients.N)[population.ids]
    if np.all(reached == 1):
        return cohort.share(population)
    if cohort.ordered:  # draws whoever can be reached
        return cohort.share(population) * reached
    if cohort.thinned is None:
        return None
    return cohort.thinned(population, reached)
