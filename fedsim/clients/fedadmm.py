"""FedADMM: the alternating direction method of multipliers."""

from typing import Annotated

import jax
from annotated_types import Gt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client


@client
def fedadmm(rho: Annotated[float, Gt(0)] = 0.01) -> Client:
    """The alternating direction method of multipliers: clients agree through dual variables.

    y ← y − η_l (∇f_i(y; batch) + λ_i + ρ (y − x)), from y = x; then λ_i ← λ_i + ρ (y − x);
    sends the change of y + λ_i/ρ since it last took part. Every y_i starts at the run's start
    model, and λ_i at 0.

    State: y and λ_i, two models a client.    Sends: one model.
    Rule: `mean_over_all`, so that x stays the mean of all y + λ_i/ρ; the mean over the cohort
    overshoots, and diverges where few take part.

    Args:
      rho: ρ, strength of the penalty.

    References:
      Gong, Li, Freris 2022, FedADMM, arXiv:2204.03529, Algorithm 1 with η = |S|/N.
    """

    def memory(shared, key):
        del key
        return {"y": shared["params"], "dual": tree.zeros_like(shared["params"])}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "dual": row["dual"]}

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        pull = lambda g, dual, y, x: g + dual + rho * (y - x)
        return value, jax.tree.map(pull, g, local["dual"], variables["params"], shared["params"])

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        y = variables["params"]
        dual = jax.tree.map(lambda dual, d: dual + rho * d, row["dual"], message.delta)
        change = lambda y, dual, last_y, last_dual: (y - last_y) + (dual - last_dual) * (1 / rho)
        delta = jax.tree.map(change, y, dual, row["y"], row["dual"])
        return message._replace(delta=delta, memory={"y": y, "dual": dual})

    return Client(memory=memory, start=start, gradient=gradient, step=hooks.step, finish=finish)
