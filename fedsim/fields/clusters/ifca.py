"""IFCA and HypCluster: every client trains the one of k models that suits it best."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.fedsgd import fedsgd
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.types import Bank, Client, Message, Travel

Clusters = Annotated[int, Ge(1)]


@client
def ifca(clusters: Clusters = 2, averaging: Literal["models", "gradients"] = "models") -> Client:
    """Several models at the server; a client trains the one of least loss on its samples.

    j_i = argmin_j f_i(θ_j) over all its samples, the first of equal ones. With `averaging: models`,
    y ← y − η_l ∇f_i(y; batch) from y = θ_{j_i}, and a model moves to the mean of those trained from
    it. With `gradients`, a client takes one step along its mean gradient, and
    θ_j ← θ_j − (η_l/|S|) Σ_{i: j_i = j} ∇f_i(θ_j) over all clients S of the round. A model that
    nobody chose stays as it is. The models start from draws of their own.

    State: θ_1, ..., θ_k on the server.    Sends: one model, and its number, receives k.
    Rule: `mean`, with `averaging: gradients` its weights are `uniform`.
    Costs the losses of k models on all samples before each round. With `clusters: 1`: `sgd`.

    Args:
      clusters: k, the number of models.
      averaging: what is averaged: models after local steps, or gradients.

    References:
      Ghosh, Chung, Yin, Ramchandran 2020, An Efficient Framework for Clustered Federated Learning,
      arXiv:2006.04088, Algorithm 1.
    """
    trains = sgd() if averaging == "models" else fedsgd()
    bank = Bank(
        models=clusters,
        choice=losses_of_models,
        over_round=averaging == "gradients",
    )
    return trains._replace(server=bank, travel=Travel(models=clusters))


@client
def hypcluster(clusters: Clusters = 2) -> Client:
    """Several hypotheses at the server; a client trains the one of least loss on its samples.

    j_i = argmin_j f_i(θ_j) over all its samples, the first of equal ones; then
    y ← y − η_l ∇f_i(y; batch) from y = θ_{j_i}, and θ_j moves to the mean of those trained from it.
    It is `ifca` with `averaging: models`.

    State: θ_1, ..., θ_k on the server.    Sends: one model, and its number, receives k.
    Rule: `mean`. Costs the losses of k models on all samples before each round.
    With `clusters: 1`: `sgd`.

    Args:
      clusters: k, the number of hypotheses.

    References:
      Mansour, Mohri, Ro, Suresh 2020, Three Approaches for Personalization with Applications to
      Federated Learning, arXiv:2002.10619, section 3 (HypCluster).
    """
    return ifca(clusters=clusters)


def _start(task, shared, row, work):
    del task, row
    models = {"params": shared["params"], "stats": shared["stats"]}
    k = tree.rows(shared["params"])
    return models, {"losses": jnp.zeros(k, work.lr.dtype), "rows": 0 * work.lr}


def _losses(task, variables, batch, local, shared, work):
    """Return the losses of a batch at all models; the compiler drops the unused gradients."""
    del local, shared
    loss_of = lambda model: task.value_and_grad(model, batch)[0][0]
    losses = jax.vmap(loss_of)(variables)
    rows = batch.mask.sum().astype(work.lr.dtype)
    return (losses.min(), variables["stats"]), (losses, rows)


def _add(task, g, params, local, shared, work):
    del task, shared, work
    losses, rows = g
    return params, {"losses": local["losses"] + rows * losses, "rows": local["rows"] + rows}


def _send_losses(task, shared, variables, local, row, work):
    del task, shared, variables, row
    losses = local["losses"] / jnp.maximum(local["rows"], 1)
    return Message(delta=losses, stats={}, aux={}, memory=(), effort=jnp.zeros_like(work.lr))


losses_of_models = Client(
    memory=hooks.no_memory, start=_start, gradient=_losses, step=_add, finish=_send_losses
)
"""f_i(θ_1), ..., f_i(θ_k) over all samples of the client, as its message."""
