"""FedSGD: one step along the client's mean gradient."""

import jax.numpy as jnp

from fedsim.clients.probe import mean_gradient
from fedsim.compose import client
from fedsim.types import Client


@client
def fedsgd() -> Client:
    """One step along the client's mean gradient, as in distributed SGD, for any batch size.

    y ← x − η_l ∇f_i(x), over all planned batches; with one epoch, over all its samples.

    State: none.    Sends: one model.    With `batch: full` and one step: `sgd`.

    References:
      McMahan et al. 2017, arXiv:1602.05629, section 2 (FederatedSGD).
    """

    def finish(task, shared, variables, local, row, work):
        message = mean_gradient.finish(task, shared, variables, local, row, work)
        optimizer = task.optimizer(work.lr)
        state = optimizer.init(shared["params"])
        delta, _ = optimizer.update(message.delta, state, shared["params"])
        return message._replace(delta=delta, stats=shared["stats"], effort=jnp.ones_like(work.lr))

    return mean_gradient._replace(finish=finish, needs=frozenset({"no optimizer_state"}))
