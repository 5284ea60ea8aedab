"""FedALA: every client learns how much of the shared model it takes over."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.fields.personal.fedper import shared_mask, unshared_leaves
from fedsim.types import Client, LocalPhase, Scored

WEIGHTS, LOCAL = range(2)


@client
def fedala(
    weight_steps: Annotated[int, Ge(1), Le(100_000)] = 10,
    weight_lr: Annotated[float, Ge(0)] = 1.0,
    personal: list[str] | None = None,
) -> Client:
    """Local training from a mixture, element by element, of the client's last model and the shared.

    In the upper leaves a client begins at y = v_i + (x − v_i) ⊙ w_i, in all others at y = x. First
    w_i ← w_i − η_w (x − v_i) ⊙ ∇f_i(y; batch), within [0, 1], `weight_steps` times on batches of
    their own, y following; then plain training of y in all leaves, after which v_i is y. The client
    sends y − x. Its own model is the mixture. All v_i begin at the start model, all w_i at 1.
    The authors go on with the weights in a client's first round until its loss settles.

    State: the upper layers twice more for every client, v_i and w_i.    Sends: one model.

    Args:
      weight_steps: steps on the weights in a round.
      weight_lr: η_w.
      personal: the upper leaves, as for `fedper`. Left out: the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Zhang et al. 2023, FedALA: Adaptive Local Aggregation for Personalized Federated Learning,
      arXiv:2212.01197, Algorithm 1.
    """

    def upper(params):
        return unshared_leaves(params, shared_mask(params, personal))

    def mixture(row, params):
        """The shared parameters with a client's share of its own in the upper leaves."""
        take_over = lambda v, x, w: v + (x - v) * w
        mixed = jax.tree.map(take_over, row["v"], upper(params), row["w"])
        return tree.fill_leaves(mixed, params)

    def memory(shared, key):
        del key
        v = upper(shared["params"])
        return {"v": v, "w": jax.tree.map(jnp.ones_like, v)}

    def personal_model(shared, row):
        return {"params": mixture(row, shared["params"]), "stats": shared["stats"]}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return personal_model(shared, row), {**local, **row}

    def step(task, g, params, local, shared, work):
        def moved_weight(w, v, x, g):
            return jnp.clip(w - weight_lr * ((x - v) * g), 0, 1)

        x = upper(shared["params"])
        w = jax.tree.map(moved_weight, local["w"], local["v"], x, upper(g))
        followed = mixture({"v": local["v"], "w": w}, shared["params"])

        trained, stepped = hooks.step(task, g, params, local, shared, work)
        of_weights = (followed, w, local["optimizer"])
        of_training = (trained, local["w"], stepped["optimizer"])
        y, w, optimizer = tree.select(work.phase == WEIGHTS, of_weights, of_training)
        return y, {**local, "w": w, "optimizer": optimizer}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"v": upper(variables["params"]), "w": local["w"]})

    return Client(
        memory=memory,
        start=start,
        gradient=hooks.gradient,
        step=step,
        finish=finish,
        scored=Scored(personal_model),
        phases=(LocalPhase("weights", weight_steps), LocalPhase("local")),
    )
