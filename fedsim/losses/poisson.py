"""The loss of counts."""

import jax.numpy as jnp
import numpy as np

from fedsim.compose import loss
from fedsim.losses.numbers import NUMBERS, summed
from fedsim.types import Loss


@loss
def poisson() -> Loss:
    """Poisson regression: the model predicts the rate of a count.

    ℓ(o, y) = exp(o) − y o, the negative log-likelihood of a rate exp(o) without ln y!, summed over
    the numbers of a target. Outputs are logarithms of rates; R², MAE and `result.predict` are of
    the rates.

    Raises:
      ScenarioError: for targets below 0.

    References:
      Nelder and Wedderburn 1972, Generalized Linear Models, doi:10.2307/2344614.

    >>> poisson()(jnp.array([[0.0]]), jnp.array([3.0])).tolist()
    [1.0]
    """
    return Loss(
        summed(lambda o, y: jnp.exp(o) - y * o), targets=NUMBERS, predicts=jnp.exp, fault=_negative
    )


def _negative(y: np.ndarray) -> str:
    if not len(y) or y.min() >= 0:
        return ""
    return f"poisson is for counts, and there is a target {y.min():g}"
