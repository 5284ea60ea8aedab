"""Clients in turn, in an order in which their classes take turns as well."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population, equal


@cohort
def round_robin_by_class(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """The next `size` clients in an order in which their classes alternate, again from the first after the last.

    A client's class is the one that most of its samples have (ties to the lower number). The i-th of the c clients
    of a class, by id, stands at (i − ½)/c of the order (ties to the lower class): where all classes have as many
    clients, they follow one another; else any round has of each class as many as its share of the clients says, up
    to one more or less. Against `cyclic`, whose rounds have the classes that neighbouring ids happen to have.

    The same in every seed with this partition. A client that cannot be reached misses its turn.
    Cost: O(N log N) on the host.

    Args:
      size: clients per round.
    References:
      Stratified systematic sampling: Cochran 1977, Sampling Techniques, chapters 5 and 8; over clients in turn: Cho et al.
      2023, arXiv:2302.03109.
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        del rng
        order = alternating(population.labels.argmax(1))  # type: ignore[union-attr]
        return population.ids[order[((round - 1) * size + np.arange(size)) % len(order)]]

    return Cohort(
        draw, lambda N: size, needs=frozenset({"labels"}), share=equal(size), ordered=True
    )


def alternating(classes: np.ndarray) -> np.ndarray:
    """Places in an order in which every class is spread evenly.

    >>> alternating(np.array([0, 0, 0, 0, 1, 1])).tolist()
    [0, 4, 1, 2, 5, 3]
    """
    grouped = np.argsort(classes, kind="stable")
    count = np.bincount(classes)
    rank = np.arange(len(classes)) - np.repeat(np.cumsum(count) - count, count)
    position = (rank + 0.5) / np.repeat(count, count)
    return grouped[np.argsort(position, kind="stable")]
