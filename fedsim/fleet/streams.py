"""Keyed random streams: a draw depends on (seed, stream, round, client) and on no earlier draw."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are for; a number is never reused for another purpose."""

    PARTITION = 1
    COHORT = 2
    BATCHES = 3
    MALICIOUS = 4
    CLIENT_TEST = 5
    SKEW = 8  # each client's number of a skew
    SKEWED = 9  # how a skew changes a client's samples
    SPARE = 10  # who starts if the cohort draws nobody that can
    POISON = 11  # how an attacker changes a client's samples
    REFERENCE = 12  # batches of the server's own training
    SCORED = 13  # clients that the final model is scored on, if not on all
    SPEED = 14
    LINKS = 15
    AVAILABILITY = 16  # what availability fixes for every client
    AVAILABLE = 17  # who can be reached in a round
    DROPOUT = 18
    STRAGGLERS = 21  # who is slow in a round, and how much of its work it does
    PHASES = 22  # batches of a client's other phases than the one that the scenario asks for
    TUNING = 23  # batches of the training before a score
    CLIENT_VALIDATION = 24  # clients' own samples that are scored while a run lasts
    CANARIES = 25  # which clients are canaries, and which of these take part
    TOPOLOGY = 26  # random graphs
    LINKS_DOWN = 27  # links of a graph that fail in a round
    HELD_OUT = 28  # samples of a client that only one phase of its rounds is dealt
    LEVELS = 29  # which size of the model a client trains


def generator(seed: int, stream: Stream, round: int = 0, client: int = 0) -> np.random.Generator:
    """Return a counter-based generator.

    Its 128-bit key consists of the four numbers themselves, so that no two streams overlap.

    Args:
      seed: 0 ≤ seed < 2³².
      stream: what the numbers are for.
      round: 0 ≤ round < 2³².
      client: 0 ≤ client < 2³².
    """
    # Of an integer above 2⁶³ beside a smaller one, NumPy would make floats.
    key = np.array(_key(seed, stream, round, client), np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


class Draws:
    """`generator` for many rounds and clients of one seed and stream, at a fifth of the cost.

    `at` returns the same object every time: use one generator up before asking for the next.
    """

    def __init__(self, seed: int, stream: Stream):
        self.seed = seed
        self.stream = stream
        self.bits = np.random.Philox(key=_key(seed, stream, 0, 0))
        self.generator = np.random.Generator(self.bits)
        self.initial_state = self.bits.state

    def at(self, round: int, client: int) -> np.random.Generator:
        """Return what `generator` returns for a round and a client, before its first number."""
        self.initial_state["state"]["key"][:] = _key(self.seed, self.stream, round, client)
        self.bits.state = self.initial_state
        return self.generator


def _key(seed: int, stream: Stream, round: int, client: int) -> tuple[int, int]:
    return seed | int(stream) << 32, round | client << 32
