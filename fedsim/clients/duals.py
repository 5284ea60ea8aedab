"""Methods that keep, for every client, how far it was pulled from where it wanted to go: duals and drifts."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.clients.gradient import finish, gradient, start, step
from fedsim.clients.probe import over
from fedsim.compose import client
from fedsim.types import Client


@client
def feddc(alpha: Annotated[float, Ge(0)] = 0.1) -> Client:
    """Local drift, decoupled and corrected: every client remembers its drift and sends its model with the drift added.

    y ← y − η_l (∇f_i(y; batch) + α (y + h_i − x) + (g_i − g) / Σ η_l), from y = x; then h_i ← h_i + (y − x) and
    g_i ← y − x; sends y + h_i − x and how g_i changed; the server's g stays the mean of all g_i. All start at 0.

    State: h_i and g_i, two models a client; g, one model.    Sends: two models, receives two.    Rule: `mean(uniform)`.

    Args:
      alpha: α, strength of the pull towards the corrected model.

    References:
      Gao et al. 2022, FedDC, arXiv:2203.11751, Algorithm 1.
    """

    def memory(shared, key):
        del key
        nothing = tree.zeros_like(shared["params"])
        return {"h": nothing, "g": nothing}

    def begin(task, shared, row, work):
        variables, local = start(task, shared, row, work)
        return variables, {**local, **row}

    def pulled(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        turn = over(tree.subtract(local["g"], shared["aux"]["g"]), work.lr_sum)
        bend = lambda g, y, h, x, turn: g + alpha * (y + h - x) + turn
        return met, jax.tree.map(bend, g, variables["params"], local["h"], shared["params"], turn)

    def close(task, shared, variables, local, row, work):
        message = finish(task, shared, variables, local, row, work)
        h = tree.add(row["h"], message.delta)
        aux = {"g": tree.subtract(message.delta, row["g"])}
        return message._replace(delta=tree.add(message.delta, h), aux=aux, memory={"h": h, "g": message.delta})

    zero = lambda task, params: {"g": tree.zeros_like(params)}
    return Client(memory, begin, pulled, step, close, aux=zero, reduce={"g": "sum_over_N"})


@client
def fedadmm(rho: Annotated[float, Gt(0)] = 0.01) -> Client:
    """The alternating direction method of multipliers: clients agree by dual variables, not by averaging away.

    y ← y − η_l (∇f_i(y; batch) + λ_i + ρ (y − x)), from y = x; then λ_i ← λ_i + ρ (y − x); sends how y + λ_i/ρ changed
    since it last took part. Every y_i starts at the x of the run's start, and λ_i at 0.

    State: y and λ_i, two models a client.    Sends: one model.    Rule: `mean_over_all`, so that x stays the mean of all
    y + λ_i/ρ; the mean over the cohort overshoots, and diverges where few take part.

    Args:
      rho: ρ, strength of the penalty.

    References:
      Gong, Li, Freris 2022, FedADMM, arXiv:2204.03529, Algorithm 1 with η = |S|/N.
    """

    def memory(shared, key):
        del key
        return {"y": shared["params"], "dual": tree.zeros_like(shared["params"])}

    def begin(task, shared, row, work):
        variables, local = start(task, shared, row, work)
        return variables, {**local, "dual": row["dual"]}

    def pulled(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        pull = lambda g, dual, y, x: g + dual + rho * (y - x)
        return met, jax.tree.map(pull, g, local["dual"], variables["params"], shared["params"])

    def close(task, shared, variables, local, row, work):
        message, y = finish(task, shared, variables, local, row, work), variables["params"]
        dual = jax.tree.map(lambda dual, d: dual + rho * d, row["dual"], message.delta)
        sent = lambda y, dual, before, was: (y - before) + (dual - was) * (1 / rho)
        delta = jax.tree.map(sent, y, dual, row["y"], row["dual"])
        return message._replace(delta=delta, memory={"y": y, "dual": dual})

    return Client(memory, begin, pulled, step, close)


@client
def scaffnew() -> Client:
    """ProxSkip for federated learning: control variates that cost nothing to send.

    y ← y − η_l (∇f_i(y; batch) − h_i), from y = x; sends Δ_i = y − x; and when the next model arrives,
    h_i ← h_i + (x_new − y) / Σ η_l. All h_i start at 0 and sum to 0 for ever where everybody takes part, which the
    method supposes: of absent clients the correction comes late. The paper draws the number of local steps from a
    geometric distribution with mean 1/p; here it is what `steps` or `epochs` say.

    State: h_i and y, two models a client.    Sends: one model.    Rule: `mean(uniform)`.

    References:
      Mishchenko et al. 2022, ProxSkip, arXiv:2202.09357, Algorithm 2 (Scaffnew).
    """

    def memory(shared, key):
        del key
        pace = jnp.zeros((), jax.tree.leaves(shared["params"])[0].dtype)
        return {"h": tree.zeros_like(shared["params"]), "y": shared["params"], "pace": pace}

    def begin(task, shared, row, work):
        variables, local = start(task, shared, row, work)
        h = tree.add(row["h"], over(tree.subtract(shared["params"], row["y"]), row["pace"]))
        return variables, {**local, "h": h}

    def corrected(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        return met, tree.subtract(g, local["h"])

    def close(task, shared, variables, local, row, work):
        message = finish(task, shared, variables, local, row, work)
        return message._replace(memory={"h": local["h"], "y": variables["params"], "pace": work.lr_sum})

    return Client(memory, begin, corrected, step, close)
