"""Clients in turn, in an order in which their classes take turns as well."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population, equal


@cohort
def round_robin_by_class(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """The next `size` clients in an order in which classes alternate, starting over at the end.

    A client's class is the most frequent one among its samples (ties: the lower number). The i-th
    of the c clients of a class, by id, has position (i − ½)/c in the order (ties: the lower class).
    If all classes have equally many clients, classes simply alternate; otherwise every round has
    clients of each class in proportion, up to one more or fewer. A `cyclic` cohort, by contrast,
    has the classes that neighbouring ids happen to have.

    The order is the same for all seeds with this partition. A client that cannot be reached misses
    its turn.    Cost: O(N log N) on the host.

    Args:
      size: clients per round.
    References:
      Stratified systematic sampling: Cochran 1977, Sampling Techniques, chapters 5 and 8; over
      clients in turn: Cho et al. 2023, arXiv:2302.03109.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        del rng
        assert population.labels is not None
        order = alternating(population.labels.argmax(1))
        turn = (round - 1) * size + np.arange(size)
        return population.ids[order[turn % len(order)]]

    return Cohort(
        draw, lambda N: size, needs=frozenset({"labels"}), share=equal(size), ordered=True
    )


def alternating(classes: np.ndarray) -> np.ndarray:
    """Return the positions `[N]` in an order in which every class is spread evenly.

    >>> alternating(np.array([0, 0, 0, 0, 1, 1])).tolist()
    [0, 4, 1, 2, 5, 3]
    """
    grouped = np.argsort(classes, kind="stable")  # class after class
    count = np.bincount(classes)
    first = np.cumsum(count) - count  # where each class begins
    rank = np.arange(len(classes)) - np.repeat(first, count)
    position = (rank + 0.5) / np.repeat(count, count)
    return grouped[np.argsort(position, kind="stable")]
