"""Decentralised FedAvg with local momentum."""

from typing import Annotated

import jax
from annotated_types import Ge, Lt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.fields.graphs.clients.nodes import AFTER
from fedsim.types import Client


@client
def dfedavgm(momentum: Annotated[float, Ge(0), Lt(1)] = 0.9) -> Client:
    """Nodes of a graph take several local steps with heavy-ball momentum, then mix.

    v ← θ v + ∇f_i(y; batch) ;  y ← y − η_l v, from y = x_i and v = 0 in every round;
    x_i ← Σ_j W_ij y_j. With θ = 0: `sgd` on the same graph.

    State: none.    Sends: one model.    Needs: a `topology`.

    Args:
      momentum: θ.

    References:
      Sun, Li, Wang 2023, Decentralized Federated Averaging, arXiv:2104.11375, Algorithm 1.
    """

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "v": tree.zeros_like(shared["params"])}

    def step(task, g, params, local, shared, work):
        v = jax.tree.map(lambda v, g: momentum * v + g, local["v"], g)
        params, local = hooks.step(task, v, params, local, shared, work)
        return params, {**local, "v": v}

    return Client(
        memory=hooks.no_memory,
        start=start,
        gradient=hooks.gradient,
        step=step,
        finish=hooks.finish,
        server=AFTER,
    )
