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
    """`size` clients of one tier, which are about equally fast: no round waits for the slowest of all.

    The clients that can be reached, in the order of the seconds that a round takes them (ties by id), are cut into
    `tiers` parts of equal number, up to one. A round draws a tier, with probabilities proportional to `weights`,
    and then of its clients each set of `size` alike; all of a tier that has fewer. Equal weights are the paper's
    policy `uniform`; [0.7, 0.1, 0.1, 0.05, 0.05] its `random`, [1, 0, 0, 0, 0] its `fast`. Its adaptive policy,
    which looks at accuracies by tier, is not this one.

    Seconds depend on steps and bytes: methods that differ in these may have other tiers.    Cost: O(N log N) on the host.

    Args:
      size: clients per round.
      tiers: how many.
      weights: how often each tier is drawn, the fastest first; left out: all alike.
    References:
      Chai et al. 2020, TiFL: A Tier-based Federated Learning System, arXiv:2001.09249, section 4.3.
    """
    if weights is not None and (len(weights) != tiers or not sum(weights) > 0):
        raise ValueError(
            f"{len(weights)} weights for {tiers} tiers, of which one must be above 0; write one for each tier"
        )
    chances = np.full(tiers, 1 / tiers) if weights is None else np.array(weights) / sum(weights)

    def parts(population: Population) -> tuple[list[np.ndarray], np.ndarray]:
        """Places of the clients of every tier that has some, and how often it is drawn."""
        assert population.seconds is not None
        cut = np.array_split(np.argsort(population.seconds, kind="stable"), tiers)
        some = [i for i, part in enumerate(cut) if len(part)]
        p = chances[some]
        return [cut[i] for i in some], p / p.sum() if p.sum() > 0 else np.full(
            len(some), 1 / len(some)
        )

    def draw(population: Population, round: int, rng: np.random.Generator):
        some, p = parts(population)
        tier = some[rng.choice(len(some), p=p)]
        return population.ids[rng.choice(tier, min(size, len(tier)), replace=False)]

    def share(population: Population) -> np.ndarray:
        often = np.zeros(len(population.ids))
        for part, p in zip(*parts(population), strict=True):
            often[part] = p * min(size, len(part)) / len(part)
        return often

    return Cohort(draw, lambda N: size, needs=frozenset({"seconds"}), share=share)
