"""Δ-SGD: local steps whose length follows the local smoothness."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client


@client
def delta_sgd(
    gamma: Annotated[float, Gt(0)] = 2.0,
    delta: Annotated[float, Ge(0)] = 0.1,
    eta0: Annotated[float, Gt(0)] | None = None,
    theta0: Annotated[float, Ge(0)] = 1.0,
) -> Client:
    """Local steps as long as the client's own loss is smooth: nobody has to tune a learning rate.

    η_k = min{ γ ‖y_k − y_{k−1}‖ / (2 ‖g_k − g_{k−1}‖), √(1 + δ θ_{k−1}) η_{k−1} } ;  θ_k = η_k / η_{k−1} ;
    y_{k+1} = y_k − η_k g_k, with g_k = ∇f_i(y_k; batch), from y = x; η₀ and θ₀ anew in every round.

    State: none.    Sends: one model.    With one step: `sgd` with the learning rate η₀.

    Args:
      gamma: γ, of the local smoothness.
      delta: δ, how fast a step may grow.
      eta0: η₀; left out: the client's `lr`.
      theta0: θ₀.

    References:
      Kim et al. 2024, Adaptive Federated Learning with Auto-Tuned Clients, arXiv:2306.11201, Algorithm 1.
    """

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        y, eta = shared["params"], work.lr if eta0 is None else jnp.full_like(work.lr, eta0)
        before = {"y": y, "g": tree.zeros_like(y), "eta": eta, "theta": jnp.full_like(eta, theta0)}
        return variables, {**local, "before": before, "taken": jnp.zeros((), bool)}

    def step(task, g, params, local, shared, work):
        before, taken = local["before"], local["taken"]
        moved, turned = (
            tree.norm(tree.subtract(params, before["y"])),
            tree.norm(tree.subtract(g, before["g"])),
        )
        smooth = jnp.where(
            turned > 0, gamma * moved / (2 * jnp.where(turned > 0, turned, 1)), jnp.inf
        )
        eta = jnp.where(
            taken,
            jnp.minimum(smooth, jnp.sqrt(1 + delta * before["theta"]) * before["eta"]),
            before["eta"],
        )
        theta = jnp.where(taken, eta / before["eta"], before["theta"])
        last = {"y": params, "g": g, "eta": eta, "theta": theta}
        params, local = hooks.step(task, g, params, local, shared, work._replace(lr=eta))
        return params, {**local, "before": last, "taken": jnp.ones((), bool)}

    return Client(
        memory=hooks.no_memory, start=start, gradient=hooks.gradient, step=step, finish=hooks.finish
    )
