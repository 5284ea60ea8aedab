"""FedDC: local drift, decoupled and corrected."""

from typing import Annotated

import jax
from annotated_types import Ge

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client


@client
def feddc(alpha: Annotated[float, Ge(0)] = 0.1) -> Client:
    """Decoupled local drift: clients remember their drift and add it to the model that they send.

    y ← y − η_l (∇f_i(y; batch) + α (y + h_i − x) + (g_i − g) / Σ η_l), from y = x;
    then h_i ← h_i + (y − x) and g_i ← y − x; sends y + h_i − x and the change of g_i.
    The server's g stays the mean of all g_i. All start at 0.

    State: h_i and g_i, two models a client; g, one model.    Sends: two models, receives two.
    Rule: `mean(uniform)`.

    Args:
      alpha: α, strength of the pull towards the corrected model.

    References:
      Gao et al. 2022, FedDC, arXiv:2203.11751, Algorithm 1.
    """

    def memory(shared, key):
        del key
        zero = tree.zeros_like(shared["params"])
        return {"h": zero, "g": zero}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, **row}

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        turn = tree.over(tree.subtract(local["g"], shared["aux"]["g"]), work.lr_sum)
        bend = lambda g, y, h, x, turn: g + alpha * (y + h - x) + turn
        return value, jax.tree.map(bend, g, variables["params"], local["h"], shared["params"], turn)

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        h = tree.add(row["h"], message.delta)
        aux = {"g": tree.subtract(message.delta, row["g"])}
        return message._replace(
            delta=tree.add(message.delta, h), aux=aux, memory={"h": h, "g": message.delta}
        )

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=hooks.step,
        finish=finish,
        aux=lambda task, params: {"g": tree.zeros_like(params)},
        reduce={"g": "sum_over_N"},
    )
