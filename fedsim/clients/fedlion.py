"""FedLion: Lion on the clients, with a shared momentum."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

Decay = Annotated[float, Ge(0), Lt(1)]


@client
def fedlion(b1: Decay = 0.9, b2: Decay = 0.99) -> Client:
    """Lion on the clients, whose momentum is averaged along with the models.

    y ← y − η_l sign(β₁ m + (1 − β₁) g) ;  m ← β₂ m + (1 − β₂) g,
    with g = ∇f_i(y; batch), from y = x and the shared m; m ← mean of the clients' m.
    An update is η_l times integers in −τ … τ, but counts as one model.

    State: m on the server, one model.    Sends: two models, receives two.    Rule: `mean(uniform)`.

    Args:
      b1: β₁, of the step.
      b2: β₂, of the momentum.

    References:
      Tang, Chang 2024, FedLion, arXiv:2402.09941.
    """

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "m": shared["aux"]["m"]}

    def step(task, g, params, local, shared, work):
        signs = jax.tree.map(lambda m, g: jnp.sign(b1 * m + (1 - b1) * g), local["m"], g)
        m = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g, local["m"], g)
        return jax.tree.map(lambda y, s: y - work.lr * s, params, signs), {**local, "m": m}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(aux={"m": tree.subtract(local["m"], shared["aux"]["m"])})

    return Client(
        memory=hooks.no_memory,
        start=start,
        gradient=hooks.gradient,
        step=step,
        finish=finish,
        aux=lambda task, params: {"m": tree.zeros_like(params)},
        reduce={"m": "mean"},
        needs=frozenset({"no optimizer", "no optimizer_state", "no clip"}),
    )
