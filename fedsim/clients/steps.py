"""Methods that differ from plain local training in how a step is taken."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.clients.gradient import finish, gradient, no_memory, start, step
from fedsim.clients.probe import mean_gradient
from fedsim.compose import client
from fedsim.types import Client


@client
def fedsgd() -> Client:
    """One step along the mean gradient: what distributed SGD does, however large the batches in which it is computed.

    y ← x − η_l ∇f_i(x), over all batches that the client meets; with one epoch, over all its samples.

    State: none.    Sends: one model.    With `batch: full` and one step: `sgd`.

    References:
      McMahan et al. 2017, arXiv:1602.05629, section 2 (FederatedSGD).
    """

    def close(task, shared, variables, local, row, work):
        told = mean_gradient.finish(task, shared, variables, local, row, work)
        optimizer = task.optimizer(work.lr)
        delta, _ = optimizer.update(told.delta, optimizer.init(shared["params"]), shared["params"])
        return told._replace(delta=delta, stats=shared["stats"], effort=jnp.ones_like(work.lr))

    return mean_gradient._replace(finish=close, unused=frozenset({"optimizer_state"}))


@client
def fedsam(rho: Annotated[float, Ge(0)] = 0.05) -> Client:
    """Sharpness-aware local training: the gradient is taken where the loss is worst nearby.

    y ← y − η_l ∇f_i(y + ρ g/‖g‖; batch) with g = ∇f_i(y; batch), from y = x.

    State: none.    Sends: one model.    Costs a second gradient per step.    With ρ = 0: `sgd`.

    Args:
      rho: ρ, radius of the neighbourhood.

    References:
      Qu et al. 2022, FedSAM, arXiv:2206.02618; Caldarola et al. 2022, arXiv:2203.11834.
    """

    def sharp(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        length = tree.norm(g)
        climb = jnp.where(length > 0, rho / jnp.where(length > 0, length, 1), 0)
        above = jax.tree.map(lambda y, g: y + climb * g, variables["params"], g)
        return met, task.value_and_grad({**variables, "params": above}, batch)[1]

    return Client(no_memory, start, sharp, step, finish, solo=True)


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

    def begin(task, shared, row, work):
        variables, local = start(task, shared, row, work)
        y, first = shared["params"], work.lr if eta0 is None else jnp.full_like(work.lr, eta0)
        before = {"y": y, "g": tree.zeros_like(y), "eta": first, "theta": jnp.full_like(first, theta0)}
        return variables, {**local, "before": before, "taken": jnp.zeros((), bool)}

    def adapted(task, g, params, local, shared, work):
        was, taken = local["before"], local["taken"]
        moved, turned = tree.norm(tree.subtract(params, was["y"])), tree.norm(tree.subtract(g, was["g"]))
        smooth = jnp.where(turned > 0, gamma * moved / (2 * jnp.where(turned > 0, turned, 1)), jnp.inf)
        eta = jnp.where(taken, jnp.minimum(smooth, jnp.sqrt(1 + delta * was["theta"]) * was["eta"]), was["eta"])
        theta = jnp.where(taken, eta / was["eta"], was["theta"])
        now = {"y": params, "g": g, "eta": eta, "theta": theta}
        params, local = step(task, g, params, local, shared, work._replace(lr=eta))
        return params, {**local, "before": now, "taken": jnp.ones((), bool)}

    return Client(no_memory, begin, gradient, adapted, finish)
