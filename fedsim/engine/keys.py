"""Keys of device randomness: root → round → phase (→ stage → client → step).

Every phase draws from its own stream, so that adding a stage changes no other stage's noise.
"""

from enum import IntEnum

import jax


class Phase(IntEnum):
    """What a random number is for; a value is never used for another purpose."""

    START = 1  # the start model, in round 0
    CLIENT = 2
    SERVER = 3
    WIRE = 4
    RULE = 5
    MEMORY = 6  # a client's row of memory, made when the client first takes part
    PROBE = 7  # the wire of a round's pass at the global model
    AUGMENT = 8  # augmentation of the samples in a client's batches
    BROADCAST = 9  # what the server sends out
    AGGREGATE = 10
    REFERENCE = 11  # root of the server's own training, in round 0
    GRADIENT = 12  # noise on the gradients of a client's steps
    TUNING = 13  # root of the training before a score, in round 0
    MIXING = 14  # what nodes of a graph send each other
    SENT = 15  # what the server sends each client of its own
    CLOUD = 16  # what a cloud does with the models of its edges


def round_key(root, round, phase: Phase):
    """Return the key of one phase of one round."""
    key = jax.random.fold_in(root, round)
    return jax.random.fold_in(key, int(phase))


@jax.jit
def start_key(root):
    """Return the key of the start model; round 0 has no other."""
    return round_key(root, 0, Phase.START)
