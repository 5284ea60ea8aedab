"""FedProto: models of the clients' own, whose features of a class agree."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, Scored, Travel


@client
def fedproto(lam: Annotated[float, Ge(0)] = 1.0) -> Client:
    """Models of the clients' own, whose features of a class are drawn to the mean of all clients.

    y ← y − η_l ∇(f_i(y; batch) + λ ℓ), from y = w_i, with ℓ the mean over the batch and over the d
    numbers of a feature vector of (z(x; y) − C̄_c)², where c is the sample's class; 0 for a class
    of which no client has sent a prototype. Then w_i ← y, and C_ic, the client's prototype, is the
    mean of z over the samples of class c that it trained on in the round, each at the model before
    its step; a class that was in no batch keeps its last one. The server has
    C̄_c = Σ_i n_ic C_ic / Σ_i n_ic, over the last prototypes of all clients, n_ic samples each: a
    client that is absent counts as it did. (Equation 6 of the paper has one more factor, one over
    the number of these clients, and the authors' code the plain mean over them.)
    Nobody trains the shared model, which stays at the start model: judge the method by
    `personal_accuracy` in `clients.csv` (with `data.client_test`). A client predicts by its head;
    the nearest prototype, the paper's other way, is not scored.

    State: w_i, one model a client, and its prototypes.    Sends: prototypes, receives them.
    A step costs the features of its batch twice more.
    Needs: classes, and a model with features.
    With λ = 0: `local_only` for the clients' models.

    Args:
      lam: λ, how strongly features are drawn to the prototypes of all clients.

    References:
      Tan et al. 2022, FedProto: Federated Prototype Learning across Heterogeneous Clients,
      arXiv:2105.00243, Algorithm 1, equations 3 to 7; the distance is that of the authors' code.
    """

    def aux(task, params):
        return {"prototypes": no_prototypes(task, params)}

    def memory(shared, key):
        del key
        return {
            "w": {"params": shared["params"], "stats": shared["stats"]},
            "prototypes": tree.zeros_like(shared["aux"]["prototypes"]),
        }

    def personal_model(shared, row):
        del shared
        return row["w"]

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        nothing = tree.zeros_like(shared["aux"]["prototypes"])
        return row["w"], {**local, "seen": nothing}

    def gradient(task, variables, batch, local, shared, work):
        of_all = shared["aux"]["prototypes"]
        known = of_all["count"][batch.y] > 0
        target = means(of_all)[batch.y]  # [B, d]

        def objective(variables, outputs, batch):
            z = features_of(task, variables, batch)
            apart = jnp.mean((z - target) ** 2, axis=1)
            return task.loss(outputs, batch.y) + lam * jnp.where(known, apart, 0)

        value, g = task.value_and_grad(variables, batch, objective)
        z = features_of(task, variables, batch)
        return value, (g, sums_by_class(task, z, batch))

    def step(task, g, params, local, shared, work):
        g, seen = g
        params, local = hooks.step(task, g, params, local, shared, work)
        return params, {**local, "seen": tree.add(local["seen"], seen)}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        last = row["prototypes"]
        prototypes = next_prototypes(local["seen"], last, work)
        return message._replace(
            stats=shared["stats"],
            aux={"prototypes": tree.subtract(prototypes, last)},
            memory={"w": variables, "prototypes": prototypes},
        )

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        aux=aux,
        reduce={"prototypes": "sum_over_N"},
        travel=Travel(shares=lambda params: jax.tree.map(lambda leaf: False, params), stats="kept"),
        scored=Scored(personal_model),
        needs=frozenset({"labels", "features", "solo"}),
    )


def no_prototypes(task, params):
    """Return prototypes of classes that nobody has seen: sums of features and their numbers."""
    dtype = jnp.result_type(*jax.tree.leaves(params))
    sums = jnp.zeros((task.classes, task.width), dtype)
    return {"sum": sums, "count": jnp.zeros(task.classes, dtype)}


def features_of(task, variables, batch):
    """Return the feature vector of every sample of a batch `[B, d]`."""
    return task.features(variables, batch.x).reshape(len(batch.x), -1)


def sums_by_class(task, z, batch):
    """Return the sum of a batch's feature vectors z `[B, d]` by class, and how many there are."""
    is_of_class = (batch.y[:, None] == jnp.arange(task.classes)) & batch.mask[:, None]
    one_hot = is_of_class.astype(z.dtype)  # [B, C]
    return {"sum": one_hot.T @ z, "count": one_hot.sum(axis=0)}


def means(prototypes):
    """Return the prototype of every class `[C, d]`; 0 where nobody has sent one."""
    count = prototypes["count"]
    return prototypes["sum"] / jnp.where(count > 0, count, 1)[:, None]


def next_prototypes(seen, last, work):
    """Return a client's prototypes, each weighted by the client's samples of the class.

    Args:
      seen: sums of features by class, as of `sums_by_class`.
      last: the prototypes that it had, which it keeps for classes that it has not seen.
    """
    was_seen = seen["count"] > 0
    return {
        "sum": jnp.where(was_seen[:, None], work.labels[:, None] * means(seen), last["sum"]),
        "count": jnp.where(was_seen, work.labels, last["count"]),
    }
