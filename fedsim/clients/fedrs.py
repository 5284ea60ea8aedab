"""FedRS: restricted softmax."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"alpha=1": "sgd"}


@client
def fedrs(alpha: Annotated[float, Ge(0)] = 0.5) -> Client:
    """Restricted softmax: while a client trains, outputs of classes it lacks are scaled down.

    y ← y − η_l ∇f̃_i(y; batch), from y = x, where f̃_i is the loss of outputs z_c, times α where the
    client has no sample of class c.

    State: none.    Sends: one model.    Needs: classes.
    With α = 1, or where nobody lacks a class: `sgd`.

    Args:
      alpha: α, factor of the outputs of missing classes.

    References:
      Li, Zhan 2021, FedRS: Federated Learning with Restricted Softmax for Label Distribution
      Non-IID Data, KDD.
    """

    def gradient(task, variables, batch, local, shared, work):
        factor = jnp.where(work.labels > 0, 1, jnp.asarray(alpha, work.lr.dtype))
        objective = lambda variables, outputs, batch: task.loss(outputs * factor, batch.y)
        return task.value_and_grad(variables, batch, objective)

    return Client(
        memory=hooks.no_memory,
        start=hooks.start,
        gradient=gradient,
        step=hooks.step,
        finish=hooks.finish,
        needs=frozenset({"labels", "softmax"}),
    )
