"""Importance sampling: clients that promise large updates are drawn more often, and count less."""

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
    """`size` clients, drawn in proportion to the norm of their last update, or to their last loss.

    Let v_k = n_k ‖Δ_k‖ of client k's last round (or n_k · loss_k), and N the clients that can be
    drawn. Client k has the score s_k = (1 − floor) v_k / Σ v + floor / N, and is drawn with
    probability

        π_k = min(1, c · s_k),  with c such that Σ π_k = size,

    the paper's optimal probabilities for the scores s. A client that never took part has n_k times
    the sample-weighted mean over the clients that did (as long as there are none, all have n_k). A
    client whose last loss or update was not finite has v_k = 0, and so has one with a negative
    loss. Since floor is positive, nobody has probability 0.

    The paper draws clients independently, by the norms of the current round, which costs a pass
    over all clients. Here norms are those of the last round in which a client took part, and the
    draw is systematic over a random order, so that every round has `size` clients.

    A drawn client counts with the factor 1 / π_k: `mean(denominator: expected)` is then an unbiased
    estimate of the mean over all clients, and `mean` the ratio of two such estimates. Only a rule
    that is a sum can apply these weights. With `unbiased: false` there are no factors, any rule
    will do, and clients with large updates have more influence.

    Cohorts depend on what clients reported, and so on the method.    Cost: O(N log N) on the host.

    Args:
      size: clients per round.
      by: `norm` of the update before it is encoded, or mean `loss` over the batches of the last
        round.
      floor: share of the probability that is distributed equally.
      unbiased: whether clients count with the inverse of their probability.
    References:
      Chen, Horváth, Richtárik 2020, Optimal Client Sampling for Federated Learning,
      arXiv:2010.13723, equation 7; by loss: Goetz et al. 2019, Active Federated Learning,
      arXiv:1909.12641 (which samples by a softmax of it). Systematic draw: Madow 1949, On the
      Theory of Systematic Sampling II.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        last = population.loss if by == "loss" else population.norm
        assert last is not None
        probability = inclusion(scores(last, population.samples, floor), size)
        drawn = systematic(probability, rng)
        ids = population.ids[drawn]
        return Drawn(ids, 1 / probability[drawn]) if unbiased else ids

    # A client's probability times its factor is 1.
    share = (lambda population: 1.0) if unbiased else None
    return Cohort(draw, lambda N: size, needs=frozenset({by}), share=share, factors=unbiased)


def scores(last: np.ndarray, samples: np.ndarray, floor: float) -> np.ndarray:
    """Return the scores s_k `[N]`, which sum to 1.

    Args:
      last: what each client last reported `[N]`; NaN: never, ∞: it was not finite.
      samples: n_k `[N]`.
      floor: share that is equal for all.
    """
    known = np.isfinite(last)
    value = np.maximum(np.where(known, last, 0), 0)
    value = value / (value.max(initial=0) or 1.0)  # so that sums of large losses do not overflow
    mean = np.average(value[known], weights=samples[known]) if known.any() else 1.0

    v = samples * np.where(np.isnan(last), mean, value)
    equal = np.full(len(last), 1 / len(last))
    if not v.sum() > 0:
        return equal
    return (1 - floor) * v / v.sum() + floor * equal


def inclusion(score: np.ndarray, size: int) -> np.ndarray:
    """Return π_k = min(1, c · s_k) with Σ π_k = size, for scores above 0 `[N]`.

    All are 1 if there are no more than `size` clients.

    >>> inclusion(np.array([6.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    if size >= len(score):
        return np.ones(len(score))
    falling = np.sort(score)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]  # Σ of each score and all smaller ones

    # If the i largest are certain, c = (size − i) / rest_i; the next is not certain if c · s_i < 1.
    not_certain = (size - np.arange(len(score))) * falling < rest
    certain = int(np.argmax(not_certain))  # the first such i
    return np.minimum(1.0, (size - certain) * score / rest[certain])


def systematic(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw positions with these probabilities, none twice; as many as the probabilities sum to.

    In a random order, the cumulated probabilities are marked at every 1, from a random start.
    """
    order = rng.permutation(len(probability))
    ends = np.cumsum(probability[order])
    size = round(float(ends[-1]))
    marks = (rng.random() + np.arange(size)) * (ends[-1] / size)
    marked = np.searchsorted(ends, marks, side="right")
    return np.unique(order[np.minimum(marked, len(order) - 1)])
