"""The clients' learning rate: a number, or a schedule that counts rounds or local steps."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from fedsim.assemble.links import factory_of


class ClientRate(NamedTuple):
    """The learning rate that `lr` and `lr_per` of a client section describe.

    Attributes:
      of_round: round, from 1 -> learning rate.
      of_step: local step, from 0 -> learning rate, for a schedule that counts local steps.
      schedule: that schedule for traced values, as part of the compiled program.
    """

    of_round: Callable[[int], float]
    of_step: Callable[[int], float] | None = None
    schedule: Callable[[Any], Any] | None = None


def counts_steps(section: Any) -> bool:
    """Whether the `lr` of a client section is a schedule that counts local steps."""
    return not _is_number(section.lr) and section.lr_per == "step"


def client_rate(section: Any) -> ClientRate:
    """Return the learning rate of a client section.

    Raises:
      LinkError: for a schedule that refuses its hyper-parameters.
    """
    if _is_number(section.lr):
        number = float(section.lr)
        return ClientRate(of_round=lambda r: number)

    schedule = factory_of(section.lr)()

    @functools.cache
    def rate_after(count: int) -> float:
        return float(schedule(count))

    if counts_steps(section):
        return ClientRate(of_round=lambda r: rate_after(0), of_step=rate_after, schedule=schedule)
    return ClientRate(of_round=lambda r: rate_after(r - 1))


def _is_number(lr: Any) -> bool:
    return isinstance(lr, float | int)
