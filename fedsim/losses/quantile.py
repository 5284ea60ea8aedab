"""The quantile loss."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Gt, Lt

from fedsim.compose import loss
from fedsim.losses.numbers import NUMBERS, summed
from fedsim.types import Loss


@loss
def quantile(q: Annotated[float, Gt(0), Lt(1)] = 0.5) -> Loss:
    """Quantile (pinball) loss: the model predicts the quantile q of the target.

    With e = y − o: max(q e, (q − 1) e), summed over the numbers of a target. With q = 0.5, the
    median: half the absolute error. The metric `pinball` scores it.

    Args:
      q: the quantile.

    References:
      Koenker and Bassett 1978, Regression Quantiles, doi:10.2307/1913643.

    >>> quantile(q=0.75)(jnp.array([[0.0], [4.0]]), jnp.array([4.0, 0.0])).tolist()
    [3.0, 1.0]
    """

    def of_number(outputs, y):
        error = y - outputs
        return jnp.maximum(q * error, (q - 1) * error)

    return Loss(summed(of_number), targets=NUMBERS)
