"""FedLC: outputs calibrated by the client's label counts."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"tau=0": "sgd"}


@client
def fedlc(tau: Annotated[float, Ge(0)] = 1.0) -> Client:
    """Calibrated outputs: a client does not learn that classes it rarely sees are rare.

    y ← y − η_l ∇f̃_i(y; batch), from y = x, where f̃_i is the loss of outputs z_c − τ n_{i,c}^(−1/4)
    and n_{i,c} counts the client's samples of class c (at least 1e−8).

    State: none.    Sends: one model.    Needs: classes.
    With τ = 0, or equally many samples of each class: `sgd`.

    Args:
      tau: τ, strength of the calibration.

    References:
      Zhang et al. 2022, Federated Learning with Label Distribution Skew via Logits Calibration,
      arXiv:2209.00189.
    """

    def gradient(task, variables, batch, local, shared, work):
        margin = tau * jnp.maximum(work.labels, 1e-8) ** -0.25
        objective = lambda variables, outputs, batch: task.loss(outputs - margin, batch.y)
        return task.value_and_grad(variables, batch, objective)

    return Client(
        memory=hooks.no_memory,
        start=hooks.start,
        gradient=gradient,
        step=hooks.step,
        finish=hooks.finish,
        needs=frozenset({"labels", "softmax"}),
    )
