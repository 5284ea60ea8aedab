"""APFL: personal models mixed with the shared one."""

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, Scored

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"alpha=0, adaptive=false": "sgd"}


@client
def apfl(alpha: Annotated[float, Ge(0), Le(1)] = 0.5, adaptive: bool = True) -> Client:
    """Plain local training, and a personal model that counts as a mixture with the shared one.

    A local step, on one batch, from y = x:  g = ∇f_i(α_i v_i + (1 − α_i) y; batch);
    in the first step of a round, where α adapts: α_i ← α_i − η_l ⟨v_i − y, g⟩, within [0, 1];
    v_i ← v_i − η_l α_i g;  y ← y − η_l ∇f_i(y; batch).
    The client's own model is α_i v_i + (1 − α_i) x. All v_i begin at the start model.

    State: v_i, one model a client, and α_i.    Sends: one model.    A step costs two gradients.
    With α = 0 that does not adapt: `sgd`. With α = 1 that does not: v_i as under `local_only`.

    Args:
      alpha: α of every client at the start.
      adaptive: whether α_i is learned.

    References:
      Deng, Kamani, Mahdavi 2020, Adaptive Personalized Federated Learning, arXiv:2003.13461,
      Algorithm 1.
    """

    def memory(shared, key):
        del key
        dtype = jnp.result_type(*jax.tree.leaves(shared["params"]))
        return {"v": shared["params"], "alpha": jnp.asarray(alpha, dtype)}

    def personal_model(shared, row):
        params = tree.mix(shared["params"], row["v"], row["alpha"])
        return {"params": params, "stats": shared["stats"]}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, **row}

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        mixture = tree.mix(variables["params"], local["v"], local["alpha"])
        _, of_mixture = task.value_and_grad({**variables, "params": mixture}, batch)
        return value, (g, of_mixture, batch.step == 0)

    def step(task, g, params, local, shared, work):
        g, of_mixture, is_first = g
        share = local["alpha"]
        if adaptive:
            share = jnp.where(is_first, next_alpha(params, local, of_mixture, work), share)
        rate = work.lr * share
        v = jax.tree.map(lambda v, g: v - rate * g, local["v"], of_mixture)
        y, stepped = hooks.step(task, g, params, local, shared, work)
        return y, {**stepped, "v": v, "alpha": share}

    def next_alpha(params, local, of_mixture, work):
        apart = tree.subtract(local["v"], params)
        products = jax.tree.map(lambda d, g: jnp.sum(d * g), apart, of_mixture)
        slope = functools.reduce(jnp.add, jax.tree.leaves(products))
        return jnp.clip(local["alpha"] - work.lr * slope, 0, 1)

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"v": local["v"], "alpha": local["alpha"]})

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        needs=frozenset({"solo"}),
        scored=Scored(personal_model),
    )
