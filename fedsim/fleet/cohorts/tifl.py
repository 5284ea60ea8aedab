"""TiFL: rounds of clients that are about equally fast."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Le, MinLen

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def tifl(
    size: Annotated[int, Ge(1)] = 10,
    tiers: Annotated[int, Ge(1), Le(1000)] = 5,
    weights: Annotated[list[Annotated[float, Ge(0)]], MinLen(1)] | None = None,
) -> Cohort:
    """`size` clients of one tier of similar speed, so that no round waits for the slowest of all.

    The clients that can be reached are sorted by how long a round takes them (ties by id), and cut
    into `tiers` tiers of equal size (±1). A round draws a tier, with probabilities proportional to
    `weights`, and then `size` of its clients, each set equally likely; all clients of a tier that
    has fewer. Equal weights are the paper's policy `uniform`, [0.7, 0.1, 0.1, 0.05, 0.05] its
    `random`, and [1, 0, 0, 0, 0] its `fast`. Its adaptive policy, which looks at accuracies by
    tier, is not available.

    Seconds depend on steps and bytes: methods that differ in these may have different tiers.
    Cost: O(N log N) on the host.

    Args:
      size: clients per round.
      tiers: number of tiers.
      weights: how often each tier is drawn, the fastest first; left out: all equally often.
    References:
      Chai et al. 2020, TiFL: A Tier-based Federated Learning System, arXiv:2001.09249, section 4.3.
    """
    if weights is not None and (len(weights) != tiers or not sum(weights) > 0):
        raise ValueError(
            f"{len(weights)} weights for {tiers} tiers, of which one must be above 0; "
            "write one for each tier"
        )
    p_tier = np.full(tiers, 1 / tiers) if weights is None else np.array(weights) / sum(weights)

    def tiers_of(population: Population) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the positions of the clients of each non-empty tier, and how often it is drawn."""
        assert population.seconds is not None
        by_speed = np.argsort(population.seconds, kind="stable")
        all_tiers = np.array_split(by_speed, tiers)
        filled = [i for i, members in enumerate(all_tiers) if len(members)]
        members = [all_tiers[i] for i in filled]
        p = p_tier[filled]
        if not p.sum() > 0:  # only tiers without clients would be drawn
            return members, np.full(len(filled), 1 / len(filled))
        return members, p / p.sum()

    def draw(population: Population, round: int, rng: np.random.Generator):
        members, p = tiers_of(population)
        tier = members[rng.choice(len(members), p=p)]
        return population.ids[rng.choice(tier, min(size, len(tier)), replace=False)]

    def share(population: Population) -> np.ndarray:
        drawn = np.zeros(len(population.ids))
        for tier, p in zip(*tiers_of(population), strict=True):
            drawn[tier] = p * min(size, len(tier)) / len(tier)
        return drawn

    return Cohort(draw, lambda N: size, needs=frozenset({"seconds"}), share=share)
