"""Equal participation: those that were drawn least often are drawn next."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population, equal


@cohort
def least_participated(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """The `size` clients that were drawn least often so far; among equals, each set is equally likely.

    Of the clients that can be reached, those with the fewest draws come first, so that nobody falls behind for long
    who is there at all. Where everybody can be reached, all clients are drawn once, in a random order, before
    anybody is drawn again (regularised participation), up to the round in which one pass ends and the next begins.
    What counts is being drawn, whether the message then counted or not: somebody who is always late does not block
    the others.

    Cost: O(N) on the host.

    Args:
      size: clients per round.
    References:
      Malinovsky et al. 2023, Federated Learning with Regularized Client Participation, arXiv:2302.03662; as a criterion of
      fairness: Huang et al. 2020, An Efficiency-boosting Client Selection Scheme for Federated Learning with Fairness Guarantee,
      arXiv:2011.01783.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        drawn, m = population.drawn, min(size, len(population.ids))
        assert drawn is not None
        last = np.partition(drawn, m - 1)[m - 1]  # draws of the last one that is taken
        fewer, as_many = np.flatnonzero(drawn < last), np.flatnonzero(drawn == last)
        return population.ids[np.append(fewer, rng.choice(as_many, m - len(fewer), replace=False))]

    return Cohort(draw, lambda N: size, needs=frozenset({"drawn"}), share=equal(size))
