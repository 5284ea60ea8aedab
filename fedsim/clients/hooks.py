"""The hooks of plain local training, which the methods share."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Batch, Client, Message, Scored, Shared, Task, Work


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


def step(
    task: Task, g: Tree, params: Tree, local: Tree, shared: Shared, work: Work
) -> tuple[Tree, Tree]:
    """One step of the client's optax chain."""
    del shared
    updates, optimizer = task.optimizer(work.lr).update(g, local["optimizer"], params)
    return tree.add(params, updates), {**local, "optimizer": optimizer}


def finish(
    task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work
) -> Message:
    """Send Δ = y − x, and `stats` unchanged."""
    del task, local
    delta = tree.subtract(variables["params"], shared["params"])
    effort = work.steps.astype(jnp.result_type(work.lr))
    return Message(delta=delta, stats=variables["stats"], aux={}, memory=row, effort=effort)


def shared_model(shared: Shared, row: Tree) -> Tree:
    """The personal variables of a client that has none of its own."""
    del row
    return {"params": shared["params"], "stats": shared["stats"]}


def one_of_each(params: Any, models: int, kind: str) -> list[Tree]:
    """Return start parameters that a Python program passed as a list with those of every model.

    Args:
      models: how many models the method has.

    Raises:
      ValueError: for one model, or a list of another length.
    """
    is_list = isinstance(params, list | tuple)
    if is_list and len(params) == models:
        return list(params)
    given = f"a list of {len(params)}" if is_list else "one model"
    text = f"{given}, and {kind} has {models} models"
    raise ValueError(f"{text}; pass a list with the parameters of each")


def tuning(inner: Client) -> Client:
    """Return the training before a score of a method that has one; its rows are the models.

    Args:
      inner: the method, with `personal` and `tuning`.
    """
    assert inner.scored.personal is not None
    assert inner.scored.tune_steps is not None
    personal_model = inner.scored.personal

    def start_personally(task, shared, row, work):
        _, local = start(task, shared, row, work)
        return personal_model(shared, row), local

    def remember(task, shared, variables, local, row, work):
        del task, shared, local, row
        nothing = jnp.zeros_like(work.lr)
        return Message(delta={}, stats={}, aux={}, memory=variables, effort=nothing)

    return Client(
        memory=no_memory,
        start=start_personally,
        gradient=gradient,
        step=inner.scored.tune_step or step,
        finish=remember,
    )


def carrying(inner: Client, fresh: Callable[[Tree], Any]) -> Client:
    """Keep a client's optimizer state for its next round (`optimizer_state: carry`).

    Args:
      fresh: parameters -> the optimizer's state at the start.
    """

    def memory(shared, key):
        return {"method": inner.memory(shared, key), "optimizer": fresh(shared["params"])}

    def start(task, shared, row, work):
        variables, local = inner.start(task, shared, row["method"], work)
        return variables, {**local, "optimizer": row["optimizer"]}

    def finish(task, shared, variables, local, row, work):
        message = inner.finish(task, shared, variables, local, row["method"], work)
        return message._replace(memory={"method": message.memory, "optimizer": local["optimizer"]})

    scored = scored_by_method(inner.scored)
    return inner._replace(memory=memory, start=start, finish=finish, scored=scored)


def scored_by_method(scored: Scored) -> Scored:
    """Return what is scored of a client whose method finds its own row under `method`."""
    personal = scored.personal
    if personal is None:
        return scored
    return scored._replace(personal=lambda shared, row: personal(shared, row["method"]))
