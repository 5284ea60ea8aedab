"""Keyed random streams: what is drawn depends on (seed, stream, round, client) and on nothing that happened before."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Purposes; a number is never given to another purpose."""

    PARTITION = 1
    COHORT = 2
    BATCHES = 3
    MALICIOUS = 4
    CLIENT_TEST = 5


def generator(seed: int, stream: Stream, round: int = 0, client: int = 0) -> np.random.Generator:
    """A counter-based generator whose 128-bit key is the four numbers themselves, so no two streams overlap.

    Args:
      seed: 0 ≤ seed < 2³².
      stream: what the numbers are for.
      round: 0 ≤ round < 2³².
      client: 0 ≤ client < 2³².
    """
    return np.random.Generator(np.random.Philox(key=[seed | int(stream) << 32, round | client << 32]))
