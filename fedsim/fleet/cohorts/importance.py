"""Importance sampling: clients that promise large updates come more often, and count less."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Drawn, Population


@cohort
def importance(
    size: Annotated[int, Ge(1)] = 10,
    by: Literal["loss", "norm"] = "norm",
    floor: Annotated[float, Gt(0), Le(1)] = 0.1,
    unbiased: bool = True,
) -> Cohort:
    """`size` clients, each with a probability proportional to the size of its last update, or to its last loss.

    With v_k = n_k ‖Δ_k‖ of client k's last round (or n_k · loss_k), and N clients that can be drawn, its score is
    s_k = (1 − floor) v_k / Σ v + floor / N, and it is drawn with probability

        π_k = min(1, c · s_k),  with c such that Σ π_k = size,

    the optimal probabilities of the paper for the scores s. A client that never took part has n_k times the
    sample-weighted mean of what is known of the others (all have n_k while nothing is known); one whose last loss
    or update was not finite has v_k = 0, as a negative loss has. So nobody has probability 0. The paper draws
    clients independently and by their norms of the round itself, which cost a pass of everybody; these are of the
    last round in which each took part, and the draw is systematic over a random order, so that every round has
    `size` clients.

    A client that was drawn counts with the factor 1 / π_k: `mean(denominator: expected)` is then an unbiased
    estimate of the mean over all clients, `mean` the ratio of two such estimates. Only a rule that is a sum can
    weigh like that; with `unbiased: false` nobody has a factor, any rule will do, and clients with large updates
    have more of a say.

    Cohorts depend on what clients reported, and so on the method.    Cost: O(N log N) on the host.

    Args:
      size: clients per round.
      by: `norm` of the update, as it left the training, or mean `loss` over the batches of the last round.
      floor: share of the probabilities that is equal for all.
      unbiased: whether clients count with the inverse of their probability.
    References:
      Chen, Horváth, Richtárik 2020, Optimal Client Sampling for Federated Learning, arXiv:2010.13723, equation 7; by loss:
      Goetz et al. 2019, Active Federated Learning, arXiv:1909.12641 (which samples by a softmax of it). Systematic draw:
      Madow 1949, On the Theory of Systematic Sampling II.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        last = population.loss if by == "loss" else population.norm
        assert last is not None
        chances = inclusion(scores(last, population.samples, floor), size)
        places = systematic(chances, rng)
        return (
            Drawn(population.ids[places], 1 / chances[places])
            if unbiased
            else population.ids[places]
        )

    share = (lambda population: 1.0) if unbiased else None
    return Cohort(draw, lambda N: size, needs=frozenset({by}), share=share, factors=unbiased)


def scores(last: np.ndarray, samples: np.ndarray, floor: float) -> np.ndarray:
    """s_k, of what was last known of every client: NaN is unknown, ∞ was not finite; their sum is 1."""
    known = np.isfinite(last)
    value = np.maximum(np.where(known, last, 0), 0)
    value = value / (value.max(initial=0) or 1.0)  # sums of large losses do not overflow
    mean = np.average(value[known], weights=samples[known]) if known.any() else 1.0
    each = np.where(np.isnan(last), mean, value)
    v, equal = samples * each, np.full(len(last), 1 / len(last))
    return (1 - floor) * v / v.sum() + floor * equal if v.sum() > 0 else equal


def inclusion(score: np.ndarray, size: int) -> np.ndarray:
    """π_k = min(1, c · s_k) with Σ π_k = size, or everybody where there are no more; scores are above 0.

    >>> inclusion(np.array([6.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    if size >= len(score):
        return np.ones(len(score))
    falling = np.sort(score)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]  # Σ of the scores from each on
    certain = int(
        np.argmax((size - np.arange(len(score))) * falling < rest)
    )  # so many have c · s_k ≥ 1
    return np.minimum(1.0, (size - certain) * score / rest[certain])


def systematic(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Places that are drawn with these probabilities, as many as they sum to, none twice: every 1 along their sums."""
    order = rng.permutation(len(chances))
    ends = np.cumsum(chances[order])
    size = round(float(ends[-1]))
    marks = (rng.random() + np.arange(size)) * (ends[-1] / size)
    return np.unique(order[np.minimum(np.searchsorted(ends, marks, side="right"), len(order) - 1)])
