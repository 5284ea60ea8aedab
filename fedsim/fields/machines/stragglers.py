"""Stragglers: clients of a round that do only a part of their work in the time allowed for it."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from fedsim.data.apportionment import count_of
from fedsim.fleet.streams import Draws, Stream


class Stragglers(NamedTuple):
    """How many of a round's clients are slow, and what becomes of their work.

    Attributes:
      drop: whether their partial work is left out; else it is sent.
    """

    share: float = 0.0
    drop: bool = False


def slowed(
    stragglers: Stragglers, seed: int, round: int, ids: Any, planned: Any, parts: Any
) -> tuple[Bool[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Draw a round's stragglers, by seed, round and client.

    Of m clients, round(m · (1 − share)) are not stragglers. A straggler does E' ~ U{1, …, E − 1} of
    the E parts of its work, or the only one if E = 1. Parts are epochs, or local steps if the
    scenario gives steps.

    Args:
      parts: E, for all clients or of each `[m]`.

    Returns:
      Which clients are stragglers, and the steps that each does in the time of its planned ones.

    References:
      Li et al. 2020, Federated Optimization in Heterogeneous Networks, arXiv:1812.06127, section
      5.2, and the authors' code.
    """
    m = len(ids)
    if stragglers.share == 0:
        return np.zeros(m, bool), planned

    draws = Draws(seed, Stream.STRAGGLERS)
    u = np.array([draws.at(round, int(id)).random(2) for id in ids]).reshape(-1, 2)  # [m, 2]

    by_first_number = np.lexsort((ids, u[:, 0]))
    unslowed = count_of(1 - stragglers.share, m)
    slow = np.ones(m, bool)
    slow[by_first_number[:unslowed]] = False

    parts = np.maximum(parts, 1)
    done = 1 + np.floor(u[:, 1] * np.maximum(parts - 1, 1)).astype(np.int64)
    return slow, np.where(slow, planned // parts * done, planned)
