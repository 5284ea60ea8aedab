"""Methods that know the mean gradient of the round's cohort at x: their round begins with a pass that takes it.

In `shared["aux"]["probe"]` stands c = mean_{j∈S} ∇f_j(x), each over all samples of its client.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from fedsim import tree
from fedsim.clients.gradient import finish, gradient, no_memory, start, step
from fedsim.clients.probe import gradient_at_x, mean_gradient, start_with_x
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Shared, Task

Decay = Annotated[float, Ge(0), Lt(1)]


def _anchored(task: Task, variables, batch, local, shared, work):
    """∇f_i(y; batch) − ∇f_i(x; batch) + c."""
    met, g = gradient(task, variables, batch, local, shared, work)
    at_x = gradient_at_x(task, variables, batch, local)
    return met, jax.tree.map(lambda g, at_x, c: g - at_x + c, g, at_x, shared["aux"]["probe"])


def _with_the_servers_optimizer(beta: float, begins, direction, solo: bool) -> Client:
    """The server's optimizer steps on the clients: its state stands still there, and moves once a round, by c."""

    def begin(task, shared, row, work):
        """A copy of the optimizer's state for every lane: products of what all share would be rounded in another place."""
        variables, local = begins(task, shared, row, work)
        return variables, {**local, "optimizer": shared["aux"]["optimizer"]}

    def momentum(task, g, params, local, shared, work):
        m = tree.mix(shared["aux"]["m"], g, 1 - beta)
        updates, _ = task.optimizer(work.lr).update(m, local["optimizer"], params)
        return tree.add(params, updates), local

    def fresh(task: Task, params: Tree) -> dict:
        return {"m": tree.zeros_like(params), "optimizer": task.optimizer(jnp.zeros(())).init(params)}

    def next_m(task: Task, m: Tree, shared: Shared, aggregate: Tree, pace) -> Tree:
        return tree.mix(m, shared["aux"]["probe"], 1 - beta)

    def next_state(task: Task, state: Tree, shared: Shared, aggregate: Tree, pace) -> Tree:
        m = next_m(task, shared["aux"]["m"], shared, aggregate, pace)
        return task.optimizer(pace).update(m, state, shared["params"])[1]

    reduce, unused = {"m": next_m, "optimizer": next_state}, frozenset({"optimizer_state"})
    hooks = (no_memory, begin, direction, momentum, finish)
    return Client(*hooks, aux=fresh, reduce=reduce, probe=mean_gradient, unused=unused, solo=solo)


@client
def mime(beta: Decay = 0.9) -> Client:
    """Clients step as the server's optimizer would: with its momentum, held still, and an anchored gradient.

    c = mean_{j∈S} ∇f_j(x), over all their samples; then
    y ← y − η_l U(∇f_i(y; batch) − ∇f_i(x; batch) + c, s), from y = x, with s as it was sent; once a round s ← V(c, s).
    The base optimizer is the client's `optimizer` behind momentum: with `sgd`, U(g, m) = β m + (1 − β) g and
    V(c, m) = β m + (1 − β) c. MimeAdam: `beta: 0` and `optimizer: adam`.

    State: s on the server, one model and the optimizer's.    Sends: two models, receives three.    Rule: `mean(uniform)`.
    Costs a second gradient per step, and a pass over all samples before. With one full-batch step and β = 0: `fedsgd`.

    Args:
      beta: β, decay of the server's momentum; an average, not a sum.

    References:
      Karimireddy et al. 2020, Mime, arXiv:2008.03606, Algorithm 1.
    """
    return _with_the_servers_optimizer(beta, start_with_x, _anchored, solo=True)


@client
def mimelite(beta: Decay = 0.9) -> Client:
    """Clients step as the server's optimizer would: with its momentum, held still, and their own gradient.

    y ← y − η_l U(∇f_i(y; batch), s), from y = x, with s as it was sent; once a round s ← V(c, s) with
    c = mean_{j∈S} ∇f_j(x), over all their samples. U and V are those of `mime`.

    State: s on the server, one model and the optimizer's.    Sends: two models, receives three.    Rule: `mean(uniform)`.
    Costs a pass over all samples before each round. With β = 0: `sgd`.

    Args:
      beta: β, decay of the server's momentum; an average, not a sum.

    References:
      Karimireddy et al. 2020, Mime, arXiv:2008.03606, Algorithm 1.
    """
    return _with_the_servers_optimizer(beta, start, gradient, solo=False)


@client
def fedlin() -> Client:
    """Anchored gradients, and steps so much shorter as there are more of them: all clients come equally far.

    c = mean_{j∈S} ∇f_j(x), over all their samples; then, from y = x,
    y ← y − (η_l/τ_i) (∇f_i(y; batch) − ∇f_i(x; batch) + c) for τ_i local steps.

    State: none.    Sends: two models, receives two.    Rule: `mean(uniform)`.
    Costs a second gradient per step, and a pass over all samples before. With one full-batch step: `fedsgd`.

    References:
      Mitra et al. 2021, Linear Convergence in Federated Learning, arXiv:2102.07053, FedLin.
    """

    def shorter(task, g, params, local, shared, work):
        return step(task, g, params, local, shared, work._replace(lr=work.lr / work.steps))

    return Client(no_memory, start_with_x, _anchored, shorter, finish, probe=mean_gradient, solo=True)
