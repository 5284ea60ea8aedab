"""Canaries: the clients by which an audit tests privacy; a coin decides which of them take part."""

from typing import NamedTuple

import numpy as np

from fedsim.fleet.streams import Stream, generator


class Canaries(NamedTuple):
    """The canaries of one seed, as masks of the clients `[N]`.

    Attributes:
      within: canaries that take part like any other client, and send what the audit looks for.
      without: canaries that take part in no round, as if they were no clients.
    """

    within: np.ndarray
    without: np.ndarray

    @property
    def ids(self) -> np.ndarray:
        """Ids of all canaries."""
        return np.flatnonzero(self.within | self.without)


def draw_canaries(count: int, eligible: np.ndarray, N: int, seed: int) -> Canaries:
    """Draw canaries among the clients that can take part, and toss a fair coin for each.

    The coins are independent, as the bound of the audit supposes.
    """
    rng = generator(seed, Stream.CANARIES)
    drawn = rng.choice(eligible, count, replace=False)
    is_within = rng.random(count) < 0.5

    within = np.zeros(N, bool)
    within[drawn[is_within]] = True
    without = np.zeros(N, bool)
    without[drawn[~is_within]] = True
    return Canaries(within, without)
