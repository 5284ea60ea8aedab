"""The squared error."""

import jax
import jax.numpy as jnp

from fedsim.compose import loss
from fedsim.types import Loss


@loss
def squared() -> Loss:
    """Half the squared error, ½‖o − y‖², summed over the numbers of a target.

    Classes stand for their unit vectors.

    References:
      Legendre 1805, Nouvelles méthodes pour la détermination des orbites des comètes, appendix.

    >>> squared()(jnp.array([[3.0, 0.0]]), jnp.array([[1.0, 1.0]])).tolist()
    [2.5]
    """

    def of(outputs, y):
        if jnp.issubdtype(y.dtype, jnp.integer):
            y = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
        difference = outputs.reshape(len(y), -1) - y.reshape(len(y), -1)
        return 0.5 * jnp.sum(difference * difference, axis=1)

    return Loss(of, targets=frozenset({"classes", "numbers"}))
