"""FedDyn: dynamic regularisation."""

from typing import Annotated

import jax
from annotated_types import Gt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)", "alpha": "log(1e-3, 1)"}


@client
def feddyn(alpha: Annotated[float, Gt(0)] = 0.1) -> Client:
    """Dynamic regularisation: every client's objective gets the minimum of the shared one.

    y ← y − η_l (∇f_i(y; batch) − g_i + α (y − x)), from y = x; then g_i ← g_i − α (y − x);
    sends Δ_i = y − x.
    All g_i start at 0; the server's h stays the mean of all g_i, whoever took part.

    State: g_i, one model a client.    Sends: one model.    Rule: `dyn` with the same α.

    Args:
      alpha: α, strength of the regulariser.

    References:
      Acar et al. 2021, Federated Learning Based on Dynamic Regularization, arXiv:2111.04263,
      Algorithm 1.
    """

    def memory(shared, key):
        del key
        return {"g_i": tree.zeros_like(shared["params"])}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "g_i": row["g_i"]}

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        pull = lambda g, g_i, y, x: g - g_i + alpha * (y - x)
        return value, jax.tree.map(pull, g, local["g_i"], variables["params"], shared["params"])

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        g_i = jax.tree.map(lambda g_i, d: g_i - alpha * d, row["g_i"], message.delta)
        return message._replace(memory={"g_i": g_i})

    return Client(memory=memory, start=start, gradient=gradient, step=hooks.step, finish=finish)
