"""The pass at the global model: over the cohort's samples before it trains, without a step.

Such a pass is a client method on the same local loop; `Client.probe` names it. Its messages travel
as all messages do, and their uniform mean is in `shared["aux"]["probe"]` when the training begins.
"""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.clients.hooks import gradient, no_memory, start
from fedsim.tree import Tree
from fedsim.types import Batch, Client, Message, Shared, Task, Work


def start_with_x(task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]:
    """Start at the global model, with a copy to differentiate at (4. in `fedsim.tree.exact`)."""
    variables, local = start(task, shared, row, work)
    return variables, {**local, "x": shared["params"]}


def gradient_at_x(task: Task, variables: Tree, batch: Batch, local: Tree) -> Tree:
    """∇f_i(x; batch), wherever the client is by now; needs `start_with_x`."""
    return task.value_and_grad({**variables, "params": local["x"]}, batch)[1]


def anchored(
    task: Task, variables: Tree, batch: Batch, local: Tree, shared: Shared, work: Work
) -> tuple[tuple[jax.Array, Tree], Tree]:
    """∇f_i(y; batch) − ∇f_i(x; batch) + c with c = mean_{j∈S} ∇f_j(x), each over all its samples.

    Needs `start_with_x` and `probe=mean_gradient`.
    """
    value, g = gradient(task, variables, batch, local, shared, work)
    at_x = gradient_at_x(task, variables, batch, local)
    return value, jax.tree.map(lambda g, at_x, c: g - at_x + c, g, at_x, shared["aux"]["probe"])


def no_rows(shared: Shared, work: Work) -> dict[str, Tree]:
    """The sum of gradients over no rows."""
    return {"sum": tree.zeros_like(shared["params"]), "rows": 0 * work.lr}


def add_rows(total: dict[str, Tree], g: Tree, n: jax.Array) -> dict[str, Tree]:
    """The sum with the mean gradient of n more rows: a short batch counts for less."""
    return {"sum": tree.add(total["sum"], tree.scale(g, n)), "rows": total["rows"] + n}


def _start(task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]:
    del task, row
    return {"params": shared["params"], "stats": shared["stats"]}, no_rows(shared, work)


def _gradient_and_rows(
    task: Task, variables: Tree, batch: Batch, local: Tree, shared: Shared, work: Work
) -> tuple[tuple[jax.Array, Tree], Tree]:
    del local, shared
    (loss, _), g = task.value_and_grad(variables, batch)
    return (loss, variables["stats"]), (g, batch.mask.sum().astype(work.lr.dtype))


def _add(
    task: Task, g: Tree, params: Tree, local: Tree, shared: Shared, work: Work
) -> tuple[Tree, Tree]:
    del task, shared, work
    return params, add_rows(local, *g)


def _stay(
    task: Task, g: Tree, params: Tree, local: Tree, shared: Shared, work: Work
) -> tuple[Tree, Tree]:
    del task, g, shared, work
    return params, local


def _send_mean(
    task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work
) -> Message:
    del task, shared, variables, row
    mean = tree.over(local["sum"], local["rows"])
    return Message(delta=mean, stats={}, aux={}, memory=(), effort=jnp.zeros_like(work.lr))


def _send_nothing(
    task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work
) -> Message:
    del task, shared, variables, local, row
    return Message(delta={}, stats={}, aux={}, memory=(), effort=jnp.zeros_like(work.lr))


mean_gradient = Client(
    memory=no_memory, start=_start, gradient=_gradient_and_rows, step=_add, finish=_send_mean
)
"""∇f_i(x) over all samples of the client, as its message."""

mean_loss = Client(
    memory=no_memory, start=_start, gradient=_gradient_and_rows, step=_stay, finish=_send_nothing
)
"""Only the loss, which the loop counts anyway. (The compiler drops the unused gradient.)"""
