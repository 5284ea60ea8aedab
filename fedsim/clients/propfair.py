"""PropFair: proportional fairness, by a logarithm of what a client gains."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Gt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.types import Client


@client
def propfair(
    baseline: Annotated[float, Gt(0)] = 2.0, epsilon: Annotated[float, Gt(0)] = 0.2
) -> Client:
    """Steps on −log(M − loss), so that a client gains by the proportion of what it has.

    y ← y − η_l ∇f_i(y; batch) / max(M − f_i(y; batch), ε), from y = x: the gradient of
    −log_ε(M − f_i), which goes on as a straight line below ε. The loss that is reported is f_i.

    State: none.    Sends: one model.    Rule: `mean`.
    With M → ∞ and η_l = M η: `sgd`.

    Args:
      baseline: M, the loss at which a client gains nothing.
      epsilon: ε, the gain below which the logarithm goes on as a straight line.

    References:
      Zhang, Malekmohammadi, Chen, Yu 2022, Proportional Fairness in Federated Learning,
      arXiv:2202.01666, Algorithm 1 and section 4 (log_ε).
    """

    def gradient(task, variables, batch, local, shared, work):
        (loss, stats), g = hooks.gradient(task, variables, batch, local, shared, work)
        gain = jnp.maximum(baseline - loss, epsilon)
        return (loss, stats), tree.scale(g, 1 / gain)

    return sgd()._replace(gradient=gradient)
