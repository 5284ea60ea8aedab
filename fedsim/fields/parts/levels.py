"""Which of a few sizes of the model every client trains, where machines are unequal."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedsim.fleet.clock import Cost

Assign = Callable[[Float[np.ndarray, " N"], np.random.Generator], Int[np.ndarray, " N"]]
"""(seconds of a step of the whole model, rng) -> the level of every client, 0 the largest."""


class Levels(NamedTuple):
    """The sizes of the model, and who has which.

    Attributes:
      name: what a size is: `width` or `rank`.
      sizes: what a scenario calls the sizes, the largest first: `[levels]`.
      assign: which level every client has; it is called once for a seed.
      left_out: bytes of the model that a client does not send `[levels]`.
      left_out_down: bytes that it does not receive `[levels]`.
      work: share of the time of a local step that a client takes `[levels]`.
    """

    name: str
    sizes: tuple[float, ...]
    assign: Assign
    left_out: Int[np.ndarray, " levels"] | int = 0
    left_out_down: Int[np.ndarray, " levels"] | int = 0
    work: Float[np.ndarray, " levels"] | float = 1.0

    def of_clients(self, column: np.ndarray | float, level: Int[np.ndarray, " N"]) -> np.ndarray:
        """Return a column of this record for every client `[N]`."""
        return np.broadcast_to(column, len(self.sizes))[level]

    def reduced(self, cost: Cost, level: Int[np.ndarray, " N"]) -> Cost:
        """Return what a round costs the clients, of the cost of the whole model."""
        return cost._replace(
            down=cost.down - self.of_clients(self.left_out_down, level),
            up=cost.up - self.of_clients(self.left_out, level),
            work=self.of_clients(self.work, level),
        )


def sizes_of(values: Sequence[float]) -> tuple[float, ...]:
    """Return the sizes that are among these values, the largest first."""
    return tuple(sorted(set(values), reverse=True))


def listed(values: Sequence[float]) -> Assign:
    """Client k has the k-th of these sizes."""
    level = _levels_of(values)
    return lambda seconds, rng: level


def uniform(values: Sequence[float]) -> Assign:
    """Every client has one of these sizes, each with the same probability, drawn once."""
    level = _levels_of(values)
    return lambda seconds, rng: level[rng.integers(len(level), size=len(seconds))]


def by_speed(values: Sequence[float]) -> Assign:
    """Clients in equal groups by their speed; faster ones have larger sizes, one value a group.

    Of clients that are equally fast, those with smaller ids count as faster.
    """
    level = np.sort(_levels_of(values))

    def assign(seconds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        del rng
        N = len(seconds)
        group = np.empty(N, np.int64)
        group[np.argsort(seconds, kind="stable")] = np.arange(N) * len(level) // max(N, 1)
        return level[group]

    return assign


def _levels_of(values: Sequence[float]) -> Int[np.ndarray, " n"]:
    sizes = sizes_of(values)
    return np.array([sizes.index(value) for value in values], np.int64)
