"""FedAMP: a model for every client, drawn to those of clients whose models are near."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Gt
from jaxtyping import Array, Bool, Int, Key

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Scored, Travel


@client
def fedamp(
    alpha: Annotated[float, Gt(0)] = 1.0,
    sigma: Annotated[float, Gt(0)] = 1.0,
    lam: Annotated[float, Ge(0)] = 1.0,
) -> Client:
    """A model for every client, which the server draws to those of clients whose models are near.

    The server sends client i the mixture u_i = (1 − Σ_{j≠i} ξ_ij) w_i + Σ_{j≠i} ξ_ij w_j with
    ξ_ij = (α/σ) e^{−‖w_i − w_j‖²/σ}, over the clients j that have taken part. The client goes on
    from its own model, y ← y − η_l (∇f_i(y; batch) + (λ/α)(y − u_i)) from y = w_i, and w_i ← y. The
    shared model is moved by the mean of w_i − x, and nobody trains from it: judge the method by
    `personal_accuracy` in `clients.csv` (with `data.client_test`).

    State: w_i, one model a client.    Sends: one model.    Rule: `mean`.
    Costs O(N·D) for each client of a round, and the models of all clients in memory.
    With λ = 0: `local_only` for the clients' models.

    Args:
      alpha: α, the step of the server towards the models of others.
      sigma: σ, the squared distance within which models are near.
      lam: λ, strength of the pull to the mixture.

    References:
      Huang et al. 2021, Personalized Cross-Silo Federated Learning on Non-IID Data,
      arXiv:2007.03797, equations 3 to 6 with A(x) = 1 − e^{−x/σ}.
    """

    def memory(shared, key):
        del key
        return {"w": shared["params"]}

    def mixture(
        rows: Tree, seen: Bool[Array, " M"], own: Int[Array, ""], row: Tree, key: Key[Array, ""]
    ) -> Tree:
        del key
        others = seen & (jnp.arange(len(seen)) != own)
        square = tree.norms(rows["w"], row["w"]) ** 2
        xi = jnp.where(others, alpha / sigma * jnp.exp(-square / sigma), 0)

        # u = w_i + Σ ξ_ij (w_j − w_i)
        return {"u": tree.fold(row["w"], tree.subtract(rows["w"], row["w"]), xi)}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        variables = {"params": row["own"]["w"], "stats": shared["stats"]}
        return variables, {**local, "u": row["sent"]["u"]}

    def gradient(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        apart = tree.subtract(variables["params"], local["u"])
        return value, tree.add(g, tree.scale(apart, lam / alpha))

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"w": variables["params"]})

    def personal_model(shared, row):
        return {"params": row["w"], "stats": shared["stats"]}

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        finish=finish,
        needs=frozenset({"no optimizer_state"}),
        travel=Travel(sends=mixture),
        scored=Scored(personal_model),
    )
