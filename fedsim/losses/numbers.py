"""What losses of targets that are numbers share."""

from collections.abc import Callable

import jax.numpy as jnp

NUMBERS = frozenset({"numbers"})


def summed(of_number: Callable) -> Callable:
    """Return (outputs, y) -> the sum over the numbers of each target `[B]`.

    Args:
      of_number: (outputs, y) `[B, d]` -> the loss of every number `[B, d]`.
    """

    def of(outputs, y):
        rows = len(y)
        return jnp.sum(of_number(outputs.reshape(rows, -1), y.reshape(rows, -1)), axis=1)

    return of
