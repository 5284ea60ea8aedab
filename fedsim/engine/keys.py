"""Keys of device randomness: root → round → phase (→ stage → client → step), so that no stage disturbs another's noise."""

from enum import IntEnum

import jax


class Phase(IntEnum):
    """Purposes; a number is never given to another purpose."""

    START = 1  # start model, instead of a round
    CLIENT = 2
    SERVER = 3
    WIRE = 4
    RULE = 5
    MEMORY = 6  # a client's row of memory, made at its first participation
    PROBE = 7  # the wire of a round's pass at the global model
    AUGMENT = 8  # what happens to the samples of a client's batches
    BROADCAST = 9  # what the server sends out
    AGGREGATE = 10
    REFERENCE = 11  # root of the server's own training, instead of a round's


def round_key(root, round, phase: Phase):
    """The key of one phase of one round."""
    return jax.random.fold_in(jax.random.fold_in(root, round), int(phase))


@jax.jit
def start_key(root):
    """The key of the start model: round 0 has no other."""
    return round_key(root, 0, Phase.START)
