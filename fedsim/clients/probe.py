"""What a cohort does before it trains: one pass over its samples at the shared model, where nobody moves.

Such a pass is a client method like any other, on the same local loop; `Client.probe` names it. Its messages travel as
all messages do, and their uniform mean stands in `shared["aux"]["probe"]` when the training begins.
"""

import jax.numpy as jnp

from fedsim import tree
from fedsim.clients.gradient import no_memory, start
from fedsim.tree import Tree
from fedsim.types import Batch, Client, Message, Shared, Task, Work


def _at_x(task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]:
    del task, row
    at_x = {"params": shared["params"], "stats": shared["stats"]}
    return at_x, {"sum": tree.zeros_like(shared["params"]), "rows": 0 * work.lr}


def start_with_x(task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]:
    """Begin at x, and keep a copy of it in the lane, for passes through the model at x.

    A product with one matrix for all lanes is another operation than one with a matrix each, and XLA computes it in
    another order from program to program. The copy makes it the same as the one at y.
    """
    variables, local = start(task, shared, row, work)
    return variables, {**local, "x": shared["params"]}


def gradient_at_x(task: Task, variables: Tree, batch: Batch, local: Tree) -> Tree:
    """∇f_i(x; batch), wherever the client is by now; behind `start_with_x`."""
    return task.value_and_grad({**variables, "params": local["x"]}, batch)[1]


def over(total: Tree, n) -> Tree:
    """total/n as a product, 0 where n = 0: XLA turns a quotient into one in some programs and not in others."""
    return tree.scale(total, jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 0))


def _meet(task: Task, variables: Tree, batch: Batch, local: Tree, shared: Shared, work: Work):
    """The gradient with its rows: a short batch counts for less."""
    del local, shared
    (loss, _), g = task.value_and_grad(variables, batch)
    return (loss, variables["stats"]), (g, batch.mask.sum().astype(work.lr.dtype))


def _sum(task: Task, met, params: Tree, local: Tree, shared: Shared, work: Work) -> tuple[Tree, Tree]:
    del task, shared, work
    g, n = met
    return params, {"sum": tree.add(local["sum"], tree.scale(g, n)), "rows": local["rows"] + n}


def _stay(task: Task, met, params: Tree, local: Tree, shared: Shared, work: Work) -> tuple[Tree, Tree]:
    del task, met, shared, work
    return params, local


def _tell(task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work) -> Message:
    del task, shared, variables, row
    return Message(over(local["sum"], local["rows"]), {}, {}, (), jnp.zeros_like(work.lr))


def _say_nothing(task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work) -> Message:
    del task, shared, variables, local, row
    return Message({}, {}, {}, (), jnp.zeros_like(work.lr))


mean_gradient = Client(no_memory, _at_x, _meet, _sum, _tell)
"""∇f_i(x) over all samples of the client, as its message."""

mean_loss = Client(no_memory, _at_x, _meet, _stay, _say_nothing)
"""Only the loss is met: what the loop counts anyway. (The compiler drops the gradient that nobody reads.)"""
