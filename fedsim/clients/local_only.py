"""Every client alone: a baseline, not a federated method."""

import jax

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, Scored, Travel

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)"}


@client
def local_only() -> Client:
    """A baseline, not a federated method: every client trains alone, and nothing is sent.

    v_i ← v_i − η_l ∇f_i(v_i; batch), in every round that the client takes part in, from where its
    last one ended. All v_i begin at the start model, which the server keeps: there is no shared
    model to score, and clients.csv has `personal_accuracy` of v_i on the client's own test samples
    (with `data.client_test`).

    State: v_i, one model a client.    Sends: nothing.

    References:
      Local training, as methods are compared with it in McMahan et al. 2017, arXiv:1602.05629, and
      in Li et al. 2021, Ditto, arXiv:2012.04221 (`local`).
    """

    def memory(shared, key):
        del key
        return _row({"params": shared["params"], "stats": shared["stats"]})

    def personal_model(shared, row):
        return {"params": row["v"], "stats": row.get("stats", shared["stats"])}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return personal_model(shared, row), local

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        unmoved = tree.zeros_like(message.delta)
        return message._replace(delta=unmoved, stats=shared["stats"], memory=_row(variables))

    return Client(
        memory=memory,
        start=start,
        gradient=hooks.gradient,
        step=hooks.step,
        finish=finish,
        travel=Travel(stats="kept"),
        scored=Scored(personal_model),
        server="alone",
    )


def _row(variables):
    """Return what a client remembers of its model: statistics only where the model has any."""
    if not jax.tree.leaves(variables["stats"]):
        return {"v": variables["params"]}
    return {"v": variables["params"], "stats": variables["stats"]}
