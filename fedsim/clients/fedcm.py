"""FedCM: client momentum."""

from typing import Annotated

from annotated_types import Gt, Le
from jaxtyping import Array

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Shared, Task

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"alpha=1": "sgd"}


@client
def fedcm(alpha: Annotated[float, Gt(0), Le(1)] = 0.1) -> Client:
    """Client momentum: every local step goes mostly where all clients went in the last round.

    y ← y − η_l (α ∇f_i(y; batch) + (1 − α) d), from y = x, with d = −mean Δ / Σ η_l, the mean
    direction of the clients in the last round, whatever step the server took; d = 0 at the start.

    State: d on the server, one model.    Sends: one model, receives two.    Rule: `mean(uniform)`.
    With α = 1: `sgd`.

    Args:
      alpha: α, weight of the client's own gradient.

    References:
      Xu et al. 2021, FedCM, arXiv:2106.10874, Algorithm 1.
    """

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        return value, tree.mix(shared["aux"]["d"], g, alpha)

    def direction(task: Task, old: Tree, shared: Shared, aggregate: Tree, pace: Array) -> Tree:
        return tree.scale(tree.over(aggregate, pace), -1)

    return Client(
        memory=hooks.no_memory,
        start=hooks.start,
        gradient=gradient,
        step=hooks.step,
        finish=hooks.finish,
        aux=lambda task, params: {"d": tree.zeros_like(params)},
        reduce={"d": direction},
    )
