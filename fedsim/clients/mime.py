"""Mime and MimeLite: clients step as the server's optimiser would."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Lt
from jaxtyping import Array

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.probe import anchored, mean_gradient, start_with_x
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, GradientHook, Shared, StartHook, Task

Decay = Annotated[float, Ge(0), Lt(1)]


def _with_server_optimiser(
    beta: float, first: StartHook, gradient: GradientHook, needs: frozenset[str] = frozenset()
) -> Client:
    """Clients step with the server's optimiser; its state is fixed there and moves once a round."""

    def start(task, shared, row, work):
        """With a copy of the optimiser's state for each client (4. in `fedsim.tree.exact`)."""
        variables, local = first(task, shared, row, work)
        return variables, {**local, "optimizer": shared["aux"]["optimizer"]}

    def step(task, g, params, local, shared, work):
        m = tree.mix(shared["aux"]["m"], g, 1 - beta)
        updates, _ = task.optimizer(work.lr).update(m, local["optimizer"], params)
        return tree.add(params, updates), local

    def aux(task: Task, params: Tree) -> dict:
        return {
            "m": tree.zeros_like(params),
            "optimizer": task.optimizer(jnp.zeros(())).init(params),
        }

    def next_m(task: Task, old: Tree, shared: Shared, aggregate: Tree, pace: Array) -> Tree:
        return tree.mix(old, shared["aux"]["probe"], 1 - beta)

    def next_state(task: Task, old: Tree, shared: Shared, aggregate: Tree, pace: Array) -> Tree:
        m = next_m(task, shared["aux"]["m"], shared, aggregate, pace)
        return task.optimizer(pace).update(m, old, shared["params"])[1]

    return Client(
        memory=hooks.no_memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=hooks.finish,
        aux=aux,
        reduce={"m": next_m, "optimizer": next_state},
        probe=mean_gradient,
        needs=needs | {"no optimizer_state"},
    )


# Conditions under which it is another kind, which `fedsim check --laws` tries.
limits = {"mimelite": {"beta=0": "sgd"}}


@client
def mime(beta: Decay = 0.9) -> Client:
    """Clients step as the server's optimizer would: its momentum held fixed, gradients anchored.

    c = mean_{j∈S} ∇f_j(x), over all their samples; then
    y ← y − η_l U(∇f_i(y; batch) − ∇f_i(x; batch) + c, s), from y = x, with s as it was sent;
    once a round s ← V(c, s).
    The base optimizer is the client's `optimizer` after momentum: with `sgd`,
    U(g, m) = β m + (1 − β) g and V(c, m) = β m + (1 − β) c. MimeAdam: `beta: 0`, `optimizer: adam`.

    State: s on the server, one model and the optimizer's.    Sends: two models, receives three.
    Rule: `mean(uniform)`.
    Costs a second gradient per step, and a pass over all samples before each round.
    With one full-batch step and β = 0: `fedsgd`.

    Args:
      beta: β, decay of the server's momentum; an average, not a sum.

    References:
      Karimireddy et al. 2020, Mime, arXiv:2008.03606, Algorithm 1.
    """
    return _with_server_optimiser(beta, start_with_x, anchored, frozenset({"solo"}))


@client
def mimelite(beta: Decay = 0.9) -> Client:
    """Clients step as the server's optimizer would: its momentum held fixed, plain gradients.

    y ← y − η_l U(∇f_i(y; batch), s), from y = x, with s as it was sent; once a round s ← V(c, s)
    with c = mean_{j∈S} ∇f_j(x), over all their samples. U and V are those of `mime`.

    State: s on the server, one model and the optimizer's.    Sends: two models, receives three.
    Rule: `mean(uniform)`.
    Costs a pass over all samples before each round. With β = 0: `sgd`.

    Args:
      beta: β, decay of the server's momentum; an average, not a sum.

    References:
      Karimireddy et al. 2020, Mime, arXiv:2008.03606, Algorithm 1.
    """
    return _with_server_optimiser(beta, hooks.start, hooks.gradient)
