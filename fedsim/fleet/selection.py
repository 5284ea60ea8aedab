"""Cohorts: which clients take part in a round.

A factory returns `draw(eligible, round, rng) -> ids` (repeats allowed: a client drawn twice counts twice); its attribute
`nominal(N)` is the cohort's expected size.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, MinLen

from fedsim.compose import cohort


class Cohort(NamedTuple):
    """A way to choose a round's clients."""

    draw: Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
    nominal: Callable[[int], int]
    names: tuple[int, ...] = ()  # the clients it names itself


@cohort
def all() -> Cohort:
    """Everybody, every round."""
    return Cohort(lambda eligible, round, rng: eligible, lambda N: N)


@cohort
def uniform(size: Annotated[int, Ge(1)] = 10) -> Cohort:
    """`size` clients, each set equally likely, without replacement.

    Args:
      size: clients per round.
    """
    return Cohort(lambda eligible, round, rng: rng.choice(eligible, size, replace=False), lambda N: size)


@cohort
def listed(rounds: Annotated[list[Annotated[list[Annotated[int, Ge(0)]], MinLen(1)]], MinLen(1)]) -> Cohort:
    """The clients that are listed: round r takes `rounds[(r − 1) mod len(rounds)]`.

    Args:
      rounds: client ids of each round, cycled.
    """

    def draw(eligible, round, rng):
        del eligible, rng
        return np.asarray(rounds[(round - 1) % len(rounds)])

    return Cohort(draw, lambda N: max(map(len, rounds)), tuple(sorted({i for ids in rounds for i in ids})))
