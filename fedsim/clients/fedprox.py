"""FedProx: local training with a proximal term."""

from typing import Annotated

import jax
from annotated_types import Ge

from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"mu=0": "sgd", "client.steps=1": "sgd"}

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)", "mu": "log(1e-3, 1)"}


@client
def fedprox(mu: Annotated[float, Ge(0)] = 0.01) -> Client:
    """Local training that stays near the shared model.

    y ← y − η_l (∇f_i(y; batch) + μ (y − x)): plain steps on f_i(y) + μ/2 ‖y − x‖².

    State: none.    Sends: one model.    With μ = 0: `sgd`.

    Args:
      mu: μ, strength of the proximal term.

    References:
      Li et al. 2020, Federated Optimization in Heterogeneous Networks, arXiv:1812.06127,
      Algorithm 2.
    """

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        pull = lambda g, y, x: g + mu * (y - x)
        return value, jax.tree.map(pull, g, variables["params"], shared["params"])

    return Client(
        memory=hooks.no_memory,
        start=hooks.start,
        gradient=gradient,
        step=hooks.step,
        finish=hooks.finish,
    )
