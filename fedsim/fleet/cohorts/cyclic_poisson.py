"""Groups in turn, and in each a Poisson sample: sampling that banded noise is amplified by."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import cohort
from fedsim.fleet.sampling import Sampling
from fedsim.fleet.selection import Cohort, Population


@cohort
def cyclic_poisson(
    groups: Annotated[int, Ge(1)] = 4, rate: Annotated[float, Gt(0), Le(1)] = 0.1
) -> Cohort:
    """Every client of a round's group independently with probability `rate`.

    Client k is in group k mod `groups`, whoever else there is, and round t draws from group t mod
    `groups`: a client that was drawn is not drawn again for `groups` − 1 rounds. The size varies
    from round to round; a mean over no clients leaves the model unchanged.

    Cost: O(N) on the host.

    Args:
      groups: how many groups take turns.
      rate: probability of a client of the group to take part.
    References:
      Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization: A Unified Approach to
      Private Training, arXiv:2306.08153, algorithm 2.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        ids = population.ids
        selected = rng.random(len(ids)) < rate
        return ids[selected & (ids % groups == round % groups)]

    return Cohort(
        draw,
        nominal=lambda N: max(round(rate * N / groups), 1),
        share=lambda population: rate / groups,
        thinned=lambda population, reached: rate / groups * reached,
        sampling=Sampling("cyclic_poisson", rate=rate, groups=groups),
    )
