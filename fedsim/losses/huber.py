"""The Huber loss."""

from typing import Annotated

import optax
from annotated_types import Gt

from fedsim.compose import loss
from fedsim.losses.numbers import NUMBERS, summed
from fedsim.types import Loss


@loss
def huber(delta: Annotated[float, Gt(0)] = 1.0) -> Loss:
    """Huber loss: the squared error of small errors, and the absolute one of large errors.

    With e = o − y: ½e² where |e| ≤ δ, else δ(|e| − δ/2), summed over the numbers of a target. No
    sample has a gradient longer than δ in a number. With δ above all errors: `squared`.

    Args:
      delta: δ, the error from which on the loss is a straight line, in units of the target.

    References:
      Huber 1964, Robust Estimation of a Location Parameter, doi:10.1214/aoms/1177703732.

    >>> import jax.numpy as jnp
    >>> huber(delta=1.0)(jnp.array([[0.5], [3.0]]), jnp.array([0.0, 0.0])).tolist()
    [0.125, 2.5]
    """
    return Loss(summed(lambda o, y: optax.huber_loss(o, y, delta=delta)), targets=NUMBERS)
