"""Separated participation: a client rests between its rounds, as correlated noise asks for."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.sampling import Sampling
from fedsim.fleet.selection import Cohort, Population


@cohort
def separated(
    size: Annotated[int, Ge(1)] = 10,
    gap: Annotated[int, Ge(1)] = 2,
    most: Annotated[int, Ge(1)] | None = None,
) -> Cohort:
    """`size` of the clients that have rested, each set of them equally likely.

    If rounds i < j draw a client, then j − i ≥ `gap`, and no client is drawn more than `most`
    times. Where fewer clients than `size` have rested, all of them are drawn; where none has, the
    round is empty. Every draw counts, whether or not the message then counted.

    Of N clients, a round draws min(`size`, N/`gap`) on average, as long as none has been drawn
    `most` times.

    Cost: O(N) on the host.
    State: who was drawn how often, and when last.

    Args:
      size: clients per round.
      gap: rounds from one that draws a client to the next that may.
      most: rounds that draw a client at most; by default as many as `gap` allows.
    References:
      Kairouz et al. 2021, Practical and Private (Deep) Learning without Sampling or Shuffling,
      arXiv:2103.00039; Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization: A
      Unified Approach to Private Training, arXiv:2306.08153, section 2.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        drawn = population.drawn
        last = population.last
        assert drawn is not None and last is not None
        rested = (drawn == 0) | (round - last >= gap)
        if most is not None:
            rested &= drawn < most
        ids = population.ids[rested]
        return rng.choice(ids, min(size, len(ids)), replace=False)

    def share(population: Population) -> float:
        return min(size / len(population.ids), 1 / gap)

    return Cohort(
        draw,
        nominal=lambda N: size,
        needs=frozenset({"drawn"}),
        share=share,
        sampling=Sampling("separated", size=size, gap=gap, most=most),
    )
