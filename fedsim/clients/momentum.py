"""Methods whose local steps know where all clients went before."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt

from fedsim import tree
from fedsim.clients.gradient import finish, gradient, no_memory, start, step
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Shared, Task

Decay = Annotated[float, Ge(0), Lt(1)]


@client
def fedcm(alpha: Annotated[float, Gt(0), Le(1)] = 0.1) -> Client:
    """Client momentum: every local step goes mostly where all clients went in the last round.

    y ← y − η_l (α ∇f_i(y; batch) + (1 − α) d), from y = x, with d = −mean Δ / Σ η_l, the mean direction of the
    clients in the last round, whatever step the server took along it; d = 0 at the start.

    State: d on the server, one model.    Sends: one model, receives two.    Rule: `mean(uniform)`.    With α = 1: `sgd`.

    Args:
      alpha: α, weight of the client's own gradient.

    References:
      Xu et al. 2021, FedCM, arXiv:2106.10874, Algorithm 1.
    """

    def mixed(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        return met, tree.mix(shared["aux"]["d"], g, alpha)

    def direction(task: Task, old: Tree, shared: Shared, aggregate: Tree, pace) -> Tree:
        return tree.scale(aggregate, jnp.where(pace > 0, -1 / jnp.where(pace > 0, pace, 1), 0))

    zero = lambda task, params: {"d": tree.zeros_like(params)}
    return Client(no_memory, start, mixed, step, finish, aux=zero, reduce={"d": direction})


@client
def fedlion(b1: Decay = 0.9, b2: Decay = 0.99) -> Client:
    """Lion on the clients, whose momentum is averaged beside the models.

    y ← y − η_l sign(β₁ m + (1 − β₁) g) ;  m ← β₂ m + (1 − β₂) g, with g = ∇f_i(y; batch), from y = x and the shared m;
    m ← mean of the clients' m. An update is η_l times integers in −τ … τ; it is counted as one model all the same.

    State: m on the server, one model.    Sends: two models, receives two.    Rule: `mean(uniform)`.

    Args:
      b1: β₁, of the step.
      b2: β₂, of the momentum.

    References:
      Tang, Chang 2024, FedLion, arXiv:2402.09941.
    """

    def begin(task, shared, row, work):
        variables, local = start(task, shared, row, work)
        return variables, {**local, "m": shared["aux"]["m"]}

    def signed(task, g, params, local, shared, work):
        towards = jax.tree.map(lambda m, g: jnp.sign(b1 * m + (1 - b1) * g), local["m"], g)
        m = jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g, local["m"], g)
        return jax.tree.map(lambda y, s: y - work.lr * s, params, towards), {**local, "m": m}

    def close(task, shared, variables, local, row, work):
        message = finish(task, shared, variables, local, row, work)
        return message._replace(aux={"m": tree.subtract(local["m"], shared["aux"]["m"])})

    zero = lambda task, params: {"m": tree.zeros_like(params)}
    hooks = (no_memory, begin, gradient, signed, close)
    return Client(*hooks, aux=zero, reduce={"m": "mean"}, unused=frozenset({"optimizer", "optimizer_state"}))
