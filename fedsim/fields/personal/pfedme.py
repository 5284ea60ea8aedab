"""pFedMe: personal models by Moreau envelopes."""

from typing import Annotated

import jax
from annotated_types import Ge, Gt, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, LocalPhase, Scored


@client
def pfedme(
    lam: Annotated[float, Gt(0)] = 15.0,
    personal_lr: Annotated[float, Ge(0)] = 0.01,
    personal_steps: Annotated[int, Ge(1), Le(100_000)] = 5,
) -> Client:
    """A personal model that solves the client's task near the local one, which moves towards it.

    A local step, on one batch:  θ ← θ − η_p (∇f_i(θ; batch) + λ (θ − w)), `personal_steps` times;
    then w ← w − η_l λ (w − θ), where λ (w − θ) is about the gradient of the Moreau envelope of f_i.
    w and θ begin at x; θ goes on from one local step to the next. The client sends w − x, and keeps
    θ as its own model. The paper's R is `client.steps`, its β the step of the server.

    State: θ_i, one model a client.    Sends: one model.    Rule: `mean(uniform)`.
    A local step costs `personal_steps` gradients.

    Args:
      lam: λ, how strongly a personal model is drawn to the local one.
      personal_lr: η_p, of plain steps on θ.
      personal_steps: K, of these steps in one local step.

    References:
      Dinh, Tran, Nguyen 2020, Personalized Federated Learning with Moreau Envelopes,
      arXiv:2006.08848, Algorithm 1.
    """
    last = personal_steps - 1

    def memory(shared, key):
        del key
        return {"theta": shared["params"]}

    def personal_model(shared, row):
        return {"params": row["theta"], "stats": shared["stats"]}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "w": shared["params"]}

    def step(task, g, params, local, shared, work):
        del shared
        near_w = lambda theta, g, w: theta - personal_lr * (g + lam * (theta - w))
        theta = jax.tree.map(near_w, params, g, local["w"])

        moreau_gradient = jax.tree.map(lambda w, theta: lam * (w - theta), local["w"], theta)
        updates, optimizer = task.optimizer(work.lr).update(
            moreau_gradient, local["optimizer"], local["w"]
        )
        moved = (tree.add(local["w"], updates), optimizer)
        w, optimizer = tree.select(work.substep == last, moved, (local["w"], local["optimizer"]))
        return theta, {**local, "w": w, "optimizer": optimizer}

    def finish(task, shared, variables, local, row, work):
        sent = {**variables, "params": local["w"]}
        message = hooks.finish(task, shared, sent, local, row, work)
        return message._replace(memory={"theta": variables["params"]})

    return Client(
        memory=memory,
        start=start,
        gradient=hooks.gradient,
        step=step,
        finish=finish,
        scored=Scored(personal_model),
        phases=(LocalPhase("local", substeps=personal_steps, same_batch=True),),
    )
