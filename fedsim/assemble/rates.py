"""The clients' learning rate: a number, or a schedule that counts rounds of the run or local steps of a round."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from fedsim.assemble.links import factory_of


class ClientRate(NamedTuple):
    """A client section's `lr` and `lr_per`."""

    of_round: Callable[[int], float]  # round, from 1 -> learning rate
    # local step, from 0 -> learning rate instead, where a schedule counts steps; else None
    of_step: Callable[[int], float] | None = None
    schedule: Callable[[Any], Any] | None = (
        None  # that schedule for traced values, part of the compiled program
    )


def counts_steps(section: Any) -> bool:
    """Whether the `lr` of a client section is a schedule that counts local steps."""
    return not isinstance(section.lr, float | int) and section.lr_per == "step"


def client_rate(section: Any) -> ClientRate:
    """The learning rate of a client section.

    Raises:
      LinkError: for a schedule that refuses its hyper-parameters.
    """
    if isinstance(section.lr, float | int):
        number = float(section.lr)
        return ClientRate(lambda r: number)
    schedule = factory_of(section.lr)()
    read = functools.cache(lambda count: float(schedule(count)))
    if counts_steps(section):
        return ClientRate(of_round=lambda r: read(0), of_step=read, schedule=schedule)
    return ClientRate(of_round=lambda r: read(r - 1))
