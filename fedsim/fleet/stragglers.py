"""Stragglers: clients of a round that do only a part of their work by the time that it was to be done."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from fedsim.fleet.streams import Draws, Stream


class Stragglers(NamedTuple):
    """How many of a round's clients are slow, and what becomes of what they do."""

    share: float = 0.0  # of the clients that a round draws
    drop: bool = False  # whether their part is left out; else it is sent


class Slowed(NamedTuple):
    """The clients of a round; arrays `[m]` in their order."""

    slow: Bool[np.ndarray, " m"]  # whether it is a straggler
    able: Int[
        np.ndarray, " m"
    ]  # steps that it does by the time that its planned ones would have taken


def slowed(
    stragglers: Stragglers, seed: int, round: int, ids: Any, planned: Any, parts: Any
) -> Slowed:
    """Who is a straggler in a round, by seed, round and client: round(m · (1 − share)) of m clients are not.

    A straggler does E' ~ U{1, …, E − 1} of the E parts of its work, which are epochs, or local steps where those are what
    is written; the only one where E = 1.

    Args:
      stragglers: of the fleet.
      seed: of the run.
      round: from 1.
      ids: of the clients, each once `[m]`.
      planned: local steps of each `[m]`.
      parts: E, of each `[m]`.

    References:
      Li et al. 2020, Federated Optimization in Heterogeneous Networks, arXiv:1812.06127, section 5.2, and the authors' code.
    """
    m, draws = len(ids), Draws(seed, Stream.STRAGGLERS)
    if stragglers.share == 0:
        return Slowed(np.zeros(m, bool), planned)
    u = np.array([draws.at(round, int(id)).random(2) for id in ids]).reshape(-1, 2)
    slow = np.ones(m, bool)
    slow[np.lexsort((ids, u[:, 0]))[: int(np.round(m * (1 - stragglers.share)))]] = False
    parts = np.maximum(parts, 1)
    done = 1 + np.floor(u[:, 1] * np.maximum(parts - 1, 1)).astype(np.int64)
    return Slowed(slow, np.where(slow, planned // parts * done, planned))
