"""Canaries: the clients by which an audit tests privacy; a coin decides which of them take part."""

import numpy as np

from fedsim.fleet.streams import Stream, generator


def draw_canaries(
    count: int, eligible: np.ndarray, N: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw canaries among the eligible ids, and toss a fair coin for each.

    The coins are independent, as the bound of the audit supposes.

    Returns:
      Masks `[N]` of those that take part like any other client, and send what the audit looks for,
      and of those that take part in no round, as if they were no clients.
    """
    rng = generator(seed, Stream.CANARIES)
    drawn = rng.choice(eligible, count, replace=False)
    is_within = rng.random(count) < 0.5

    within = np.zeros(N, bool)
    within[drawn[is_within]] = True
    without = np.zeros(N, bool)
    without[drawn[~is_within]] = True
    return within, without
