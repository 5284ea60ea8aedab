"""Ditto: a personal model for every client, near the shared one."""

from typing import Annotated

import jax
from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, LocalPhase, Scored

SHARED, PERSONAL = range(2)


# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"always": "sgd"}


@client
def ditto(
    lam: Annotated[float, Ge(0)] = 0.1,
    personal_lr: Annotated[float, Ge(0)] | None = None,
    personal_steps: Annotated[int, Ge(1), Le(100_000)] = 5,
) -> Client:
    """Plain local training, and a personal model that is regularised towards the shared one.

    y ← y − η_l ∇f_i(y; batch), from y = x, as often as `client.steps` or `epochs` say; then, on
    batches of their own,
    v_i ← v_i − η_v (∇f_i(v_i; batch) + λ (v_i − x)), `personal_steps` times, with the x of the
    start of the round. The client sends y − x; all v_i begin at the start model.

    State: v_i, one model a client.    Sends: one model.
    With λ = 0: v_i as under `local_only`. The shared model is that of `sgd` for every λ.

    Args:
      lam: λ, how strongly a personal model is drawn to the shared one.
      personal_lr: η_v, of plain steps; left out: η_l.
      personal_steps: steps on the personal model in a round.

    References:
      Li et al. 2021, Ditto: Fair and Robust Federated Learning Through Personalization,
      arXiv:2012.04221, Algorithm 1.
    """

    def memory(shared, key):
        del key
        return {"v": shared["params"]}

    def personal_model(shared, row):
        return {"params": row["v"], "stats": shared["stats"]}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "v": row["v"]}

    def gradient(task, variables, batch, local, shared, work):
        is_personal = work.phase == PERSONAL
        model = tree.select(is_personal, local["v"], variables["params"])
        (loss, stats), g = hooks.gradient(
            task, {**variables, "params": model}, batch, local, shared, work
        )
        return (loss, tree.select(is_personal, variables["stats"], stats)), g

    def step(task, g, params, local, shared, work):
        is_personal = work.phase == PERSONAL
        lr = work.lr if personal_lr is None else personal_lr
        near_x = lambda v, g, x: v - lr * (g + lam * (v - x))
        v = jax.tree.map(near_x, local["v"], g, shared["params"])
        y, stepped = hooks.step(task, g, params, local, shared, work)

        y, optimizer = tree.select(
            is_personal, (params, local["optimizer"]), (y, stepped["optimizer"])
        )
        v = tree.select(is_personal, v, local["v"])
        return y, {**local, "optimizer": optimizer, "v": v}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"v": local["v"]})

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        scored=Scored(personal_model),
        phases=(LocalPhase("shared"), LocalPhase("personal", personal_steps)),
    )
