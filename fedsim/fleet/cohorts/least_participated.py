"""Equal participation: the clients that were drawn least often are drawn next."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population, equal


@cohort
def least_participated(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """The `size` clients that were drawn least often so far.

    Among clients with equally many draws, each set is equally likely.

    Of the clients that can be reached, those with the fewest draws come first, so that no client
    that is reachable at all falls behind for long. If all clients can be reached, every client is
    drawn once, in random order, before any is drawn again (regularised participation), except in
    the round in which one pass ends and the next begins. Every draw counts, whether or not the
    message then counted: a client that is always late does not block the others.

    Cost: O(N) on the host.

    Args:
      size: clients per round.
    References:
      Malinovsky et al. 2023, Federated Learning with Regularized Client Participation,
      arXiv:2302.03662; as a criterion of fairness: Huang et al. 2020, An Efficiency-boosting Client
      Selection Scheme for Federated Learning with Fairness Guarantee, arXiv:2011.01783.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        drawn = population.drawn
        assert drawn is not None
        m = min(size, len(population.ids))

        # All clients with fewer draws than the m-th, and some of those with as many.
        threshold = np.partition(drawn, m - 1)[m - 1]
        fewer = np.flatnonzero(drawn < threshold)
        as_many = np.flatnonzero(drawn == threshold)
        chosen = rng.choice(as_many, m - len(fewer), replace=False)
        return population.ids[np.append(fewer, chosen)]

    return Cohort(draw, lambda N: size, needs=frozenset({"drawn"}), share=equal(size))
