"""The hooks of plain local training, and methods that differ from it in the gradient alone."""

from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Batch, Client, Message, Shared, Task, Work


def no_memory(shared: Shared, key: jax.Array) -> Tree:
    """A client that remembers nothing."""
    del shared, key
    return ()


def start(task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]:
    """Begin at the shared variables with a fresh optimizer."""
    del row
    variables = {"params": shared["params"], "stats": shared["stats"]}
    return variables, {"optimizer": task.optimizer(work.lr).init(shared["params"])}


def gradient(
    task: Task, variables: Tree, batch: Batch, local: Tree, shared: Shared, work: Work
) -> tuple[tuple[jax.Array, Tree], Tree]:
    """∇f_i of the batch."""
    del local, shared, work
    return task.value_and_grad(variables, batch)


def step(task: Task, g: Tree, params: Tree, local: Tree, shared: Shared, work: Work) -> tuple[Tree, Tree]:
    """One step of the client's optax chain."""
    del shared
    updates, optimizer = task.optimizer(work.lr).update(g, local["optimizer"], params)
    return tree.add(params, updates), {**local, "optimizer": optimizer}


def finish(task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work) -> Message:
    """Send Δ = y − x; `stats` travels as it is."""
    del task, local
    delta = tree.subtract(variables["params"], shared["params"])
    return Message(delta, variables["stats"], {}, row, work.steps.astype(jnp.result_type(work.lr)))


@client
def sgd() -> Client:
    """Plain local training: FedAvg's client, and FedSGD's with one full-batch step.

    y ← y − η_l ∇f_i(y; batch), from y = x, for the planned local steps; sends Δ_i = y − x.
    The client's `optimizer` may be any optax one; its state starts afresh each round unless `optimizer_state: carry`.

    State: none.    Sends: one model.

    References:
      McMahan et al. 2017, arXiv:1602.05629, Algorithm 1.
    """
    return Client(no_memory, start, gradient, step, finish)


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
        met, g = gradient(task, variables, batch, local, shared, work)
        return met, jax.tree.map(lambda g, y, x: g + mu * (y - x), g, variables["params"], shared["params"])

    return Client(no_memory, start, pulled, step, finish)


def carrying(inner: Client, fresh: Callable[[Tree], Any]) -> Client:
    """`optimizer_state: carry`: a client that keeps its optimizer's state from one round to its next.

    Args:
      inner: the method.
      fresh: params -> the optimizer's state at the start.
    """

    def memory(shared, key):
        return {"method": inner.memory(shared, key), "optimizer": fresh(shared["params"])}

    def resume(task, shared, row, work):
        variables, local = inner.start(task, shared, row["method"], work)
        return variables, {**local, "optimizer": row["optimizer"]}

    def keep(task, shared, variables, local, row, work):
        message = inner.finish(task, shared, variables, local, row["method"], work)
        return message._replace(memory={"method": message.memory, "optimizer": local["optimizer"]})

    return inner._replace(memory=memory, start=resume, finish=keep)
