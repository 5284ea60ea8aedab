"""Δ-SGD: local steps whose length follows the local smoothness."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client

# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"client.steps=1": "sgd"}


@client
def delta_sgd(
    gamma: Annotated[float, Gt(0)] = 2.0,
    delta: Annotated[float, Ge(0)] = 0.1,
    eta0: Annotated[float, Gt(0)] | None = None,
    theta0: Annotated[float, Ge(0)] = 1.0,
) -> Client:
    """Local steps whose length follows the client's local smoothness: no learning rate to tune.

    η_k = min{ γ ‖y_k − y_{k−1}‖ / (2 ‖g_k − g_{k−1}‖), √(1 + δ θ_{k−1}) η_{k−1} } ;
    θ_k = η_k / η_{k−1} ;
    y_{k+1} = y_k − η_k g_k, with g_k = ∇f_i(y_k; batch), from y = x; every round starts at η₀, θ₀.

    State: none.    Sends: one model.    With one step: `sgd` with the learning rate η₀.

    Args:
      gamma: γ, of the local smoothness.
      delta: δ, how fast a step may grow.
      eta0: η₀; left out: the client's `lr`.
      theta0: θ₀.

    References:
      Kim et al. 2024, Adaptive Federated Learning with Auto-Tuned Clients, arXiv:2306.11201,
      Algorithm 1.
    """

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        y = shared["params"]
        eta = work.lr if eta0 is None else jnp.full_like(work.lr, eta0)
        last = {"y": y, "g": tree.zeros_like(y), "eta": eta, "theta": jnp.full_like(eta, theta0)}
        return variables, {**local, "last": last, "has_stepped": jnp.zeros((), bool)}

    def step(task, g, params, local, shared, work):
        last = local["last"]
        has_stepped = local["has_stepped"]

        # The inverse of the local smoothness; infinite where the gradient has not changed.
        moved = tree.norm(tree.subtract(params, last["y"]))
        turned = tree.norm(tree.subtract(g, last["g"]))
        has_turned = turned > 0
        smooth = gamma * moved / (2 * jnp.where(has_turned, turned, 1))
        smooth = jnp.where(has_turned, smooth, jnp.inf)

        largest = jnp.sqrt(1 + delta * last["theta"]) * last["eta"]
        eta = jnp.where(has_stepped, jnp.minimum(smooth, largest), last["eta"])
        theta = jnp.where(has_stepped, eta / last["eta"], last["theta"])
        this = {"y": params, "g": g, "eta": eta, "theta": theta}
        params, local = hooks.step(task, g, params, local, shared, work._replace(lr=eta))
        return params, {**local, "last": this, "has_stepped": jnp.ones((), bool)}

    return Client(
        memory=hooks.no_memory,
        start=start,
        gradient=hooks.gradient,
        step=step,
        finish=hooks.finish,
    )
