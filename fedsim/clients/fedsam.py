"""FedSAM: sharpness-aware local training."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"rho=0": "sgd"}


@client
def fedsam(rho: Annotated[float, Ge(0)] = 0.05) -> Client:
    """Sharpness-aware local training: the gradient is taken where the loss is worst nearby.

    y ← y − η_l ∇f_i(y + ρ g/‖g‖; batch) with g = ∇f_i(y; batch), from y = x.

    State: none.    Sends: one model.    Costs a second gradient per step.    With ρ = 0: `sgd`.

    Args:
      rho: ρ, radius of the neighbourhood.

    References:
      Qu et al. 2022, FedSAM, arXiv:2206.02618; Caldarola et al. 2022, arXiv:2203.11834.
    """

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        length = tree.norm(g)
        climb = jnp.where(length > 0, rho / jnp.where(length > 0, length, 1), 0)
        above = jax.tree.map(lambda y, g: y + climb * g, variables["params"], g)
        return value, task.value_and_grad({**variables, "params": above}, batch)[1]

    return Client(
        memory=hooks.no_memory,
        start=hooks.start,
        gradient=gradient,
        step=hooks.step,
        finish=hooks.finish,
        needs=frozenset({"solo"}),
    )
