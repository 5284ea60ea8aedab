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
    SKEW = 8  # what every client has of a skew
    SKEWED = 9  # what it makes of a client's samples
    SPARE = 10  # who starts where draws of a cohort name nobody that could
    POISON = 11  # what the attacker makes of a client's samples
    REFERENCE = 12  # batches of the server's own training
    SPEED = 14
    LINKS = 15
    AVAILABILITY = 16  # what availability has fixed for every client
    AVAILABLE = 17  # who can be reached in a round
    DROPOUT = 18
    STRAGGLERS = 21  # who is slow in a round, and how much of its work it does
    SCORED = 13  # clients that the final model is scored on, where not all are


def generator(seed: int, stream: Stream, round: int = 0, client: int = 0) -> np.random.Generator:
    """A counter-based generator whose 128-bit key is the four numbers themselves, so no two streams overlap.

    Args:
      seed: 0 ≤ seed < 2³².
      stream: what the numbers are for.
      round: 0 ≤ round < 2³².
      client: 0 ≤ client < 2³².
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, stream, round, client)))


class Draws:
    """`generator(seed, stream, round, client)` for one seed and stream after another, a fifth of the cost of making it.

    Each generator given out is the same object: it is to be used up before the next one is asked for.
    """

    def __init__(self, seed: int, stream: Stream):
        self.seed, self.stream = seed, stream
        self.bits = np.random.Philox(key=_key(seed, stream, 0, 0))
        self.generator, self.fresh = np.random.Generator(self.bits), self.bits.state

    def at(self, round: int, client: int) -> np.random.Generator:
        """As `generator` gives it, before its first number."""
        self.fresh["state"]["key"][:] = _key(self.seed, self.stream, round, client)
        self.bits.state = self.fresh
        return self.generator


def _key(seed: int, stream: Stream, round: int, client: int) -> tuple[int, int]:
    return seed | int(stream) << 32, round | client << 32
