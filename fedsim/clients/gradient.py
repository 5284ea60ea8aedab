"""Methods that differ from plain local training in the gradient alone, and the defaults of every hook."""

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import client
from fedsim.types import Client, Message


def no_memory(shared, key):
    """A client that remembers nothing."""
    del shared, key
    return ()


def start(task, shared, row, facts):
    """Begin at the shared variables with a fresh optimizer."""
    del row
    variables = {"params": shared["params"], "state": shared["state"]}
    return variables, {"optimizer": task.optimizer(facts.lr).init(shared["params"])}


def gradient(task, variables, batch, local, shared, facts):
    """∇f_i of the batch."""
    del local, shared, facts
    return task.value_and_grad(variables, batch)


def step(task, g, params, local, shared, facts):
    """One step of the client's optax chain."""
    del shared
    updates, optimizer = task.optimizer(facts.lr).update(g, local["optimizer"], params)
    return tree.add(params, updates), {**local, "optimizer": optimizer}


def finish(task, shared, variables, local, row, facts):
    """Send Δ = y − x; `state` travels as it is."""
    del task, local
    delta = tree.subtract(variables["params"], shared["params"])
    return Message(delta, variables["state"], {}, row, facts.steps.astype(jnp.result_type(facts.lr)))


@client
def sgd() -> Client:
    """Plain local training: FedAvg's client, and FedSGD's with one full-batch step.

    y ← y − η_l ∇f_i(y; batch), from y = x, for the planned local steps; sends Δ_i = y − x.
    The client's `optimizer` may be any optax one; its state starts afresh each round.

    State: none.    Sends: one model.

    References:
      McMahan et al. 2017, arXiv:1602.05629, Algorithm 1.
    """
    return Client(no_memory, start, gradient, step, finish)
