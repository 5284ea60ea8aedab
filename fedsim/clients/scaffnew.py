"""Scaffnew, ProxSkip's federated form: control variates that cost nothing to send."""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client


@client
def scaffnew() -> Client:
    """ProxSkip for federated learning: control variates that cost nothing to send.

    y ← y − η_l (∇f_i(y; batch) − h_i), from y = x; sends Δ_i = y − x; and when the next model
    arrives, h_i ← h_i + (x_new − y) / Σ η_l. All h_i start at 0, and their sum stays 0 if everyone
    takes part, which the method assumes: for absent clients the correction comes late. The paper
    draws the number of local steps from a geometric distribution with mean 1/p; here `steps` or
    `epochs` give it.

    State: h_i and y, two models a client.    Sends: one model.    Rule: `mean(uniform)`.

    References:
      Mishchenko et al. 2022, ProxSkip, arXiv:2202.09357, Algorithm 2 (Scaffnew).
    """

    def memory(shared, key):
        del key
        pace = jnp.zeros((), jax.tree.leaves(shared["params"])[0].dtype)
        return {"h": tree.zeros_like(shared["params"]), "y": shared["params"], "pace": pace}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        h = tree.add(row["h"], tree.over(tree.subtract(shared["params"], row["y"]), row["pace"]))
        return variables, {**local, "h": h}

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        return value, tree.subtract(g, local["h"])

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        memory = {"h": local["h"], "y": variables["params"], "pace": work.lr_sum}
        return message._replace(memory=memory)

    return Client(memory=memory, start=start, gradient=gradient, step=hooks.step, finish=finish)
