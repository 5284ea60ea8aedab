"""FedProx: local training with a proximal term."""

from typing import Annotated

import jax
from annotated_types import Ge

from fedsim.clients.hooks import finish, gradient, no_memory, start, step
from fedsim.compose import client
from fedsim.types import Client


@client
def fedprox(mu: Annotated[float, Ge(0)] = 0.01) -> Client:
    """Local training that stays near the shared model.

    y ← y − η_l (∇f_i(y; batch) + μ (y − x)): plain steps on f_i(y) + μ/2 ‖y − x‖².

    State: none.    Sends: one model.    With μ = 0: `sgd`.

    Args:
      mu: μ, strength of the proximal term.

    References:
      Li et al. 2020, Federated Optimization in Heterogeneous Networks, arXiv:1812.06127, Algorithm 2.
    """

    def pulled(task, variables, batch, local, shared, work):
        value, g = gradient(task, variables, batch, local, shared, work)
        return value, jax.tree.map(
            lambda g, y, x: g + mu * (y - x), g, variables["params"], shared["params"]
        )

    return Client(memory=no_memory, start=start, gradient=pulled, step=step, finish=finish)
