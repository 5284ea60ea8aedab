"""MR-MTL: models of the clients' own, near their mean."""

from typing import Annotated

import jax
from annotated_types import Ge

from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, Scored


@client
def mr_mtl(lam: Annotated[float, Ge(0)] = 0.1) -> Client:
    """A model of every client's own, regularised towards the mean of all of them.

    w_i ← w_i − η_l (∇f_i(w_i; batch) + λ (w_i − x)), from where the client's last round ended; it
    sends w_i − x, so that the server's next x is the mean of the w_i of the round. All w_i begin at
    the start model.

    State: w_i, one model a client.    Sends: one model.    Rule: `mean(uniform)`.
    With λ = 0: w_i as under `local_only`.

    Args:
      lam: λ, how strongly a client's model is drawn to the mean.

    References:
      Liu, Hu, Wu, Smith 2022, On Privacy and Personalization in Cross-Silo Federated Learning,
      arXiv:2206.07902, Algorithm 1, without its noise.
    """

    def memory(shared, key):
        del key
        return {"w": shared["params"]}

    def personal_model(shared, row):
        return {"params": row["w"], "stats": shared["stats"]}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return personal_model(shared, row), local

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        pull = lambda g, w, x: g + lam * (w - x)
        return value, jax.tree.map(pull, g, variables["params"], shared["params"])

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"w": variables["params"]})

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=hooks.step,
        finish=finish,
        scored=Scored(personal_model),
    )
