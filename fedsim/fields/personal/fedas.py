"""FedAS: the body that a client is sent is first drawn to the client's own features."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.personal.fedper import shared_mask
from fedsim.fields.personal.fedproto import features_of, means, no_prototypes, sums_by_class
from fedsim.types import Client, LocalPhase, Scored, Travel

LAST, ALIGN, LOCAL, FISHER = range(4)


@client
def fedas(
    align_lr: Annotated[float, Ge(0)] = 0.01,
    align_epochs: Annotated[int, Ge(1), Le(1000)] = 1,
    personal: list[str] | None = None,
) -> Client:
    """A body that a client draws to the features it had, and that counts by Fisher information.

    A client has a model w_i of its own. Of the features z of all its samples under w_i it takes the
    mean of each class, C_ic. Then the body y = x that it was sent takes `align_epochs` of steps
    y ← y − η_a ∇ Σ_c mean_{s∈batch: y_s=c} mean_d (z(s; y) − C_ic)², and body and head of w_i,
    y ← y − η_l ∇f_i(y; batch). The client sends y − x of the body, w_i ← y, and the trace
    Σ_batches ‖∇f_i(w_i; batch)‖² over a last pass, by which its body is weighted among the others.
    In the first round, w_i is the start model.

    State: w_i, one model a client.    Sends: one body, receives one.
    Rule: `mean(effort)`.
    Costs two passes over a client's samples in a round besides those of training, and with every
    step the features of its batch under w_i.
    Needs: classes, and a model with features.

    Args:
      align_lr: η_a, the step towards the client's own features.
      align_epochs: passes over the client's samples with such steps.
      personal: leaves of the head, as for `fedper`. Left out: the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Yang, Huang, Ye 2024, FedAS: Bridging Inconsistency in Personalized Federated Learning, CVPR,
      by the authors' code in PFLlib.
    """

    def shares(params):
        return shared_mask(params, personal)

    def memory(shared, key):
        del key
        return {"w": {"params": shared["params"], "stats": shared["stats"]}}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        with_sent_body = lambda is_body, x, w: x if is_body else w
        own = row["w"]["params"]
        params = jax.tree.map(with_sent_body, shares(own), shared["params"], own)
        nothing = no_prototypes(task, shared["params"])
        of_passes = {"w": row["w"], "prototypes": nothing, "trace": 0 * work.lr}
        return {"params": params, "stats": shared["stats"]}, {**local, **of_passes}

    def gradient(task, variables, batch, local, shared, work):
        del shared
        of_batch = sums_by_class(task, features_of(task, local["w"], batch), batch)
        target = means(local["prototypes"])[batch.y]
        rows = jnp.sum(batch.mask).astype(work.lr.dtype)

        def objective(variables, outputs, batch):
            apart = jnp.mean((features_of(task, variables, batch) - target) ** 2, axis=1)
            # The objective's mean is over rows, that of the penalty over those of the class.
            rows_of_class = jnp.maximum(of_batch["count"][batch.y], 1)
            return jnp.where(
                work.phase == ALIGN, apart * rows / rows_of_class, task.loss(outputs, batch.y)
            )

        (loss, stats), g = task.value_and_grad(variables, batch, objective)
        stats = tree.select(work.phase == LOCAL, stats, variables["stats"])
        return (loss, stats), (g, of_batch)

    def step(task, g, params, local, shared, work):
        g, of_batch = g
        trained, stepped = hooks.step(task, g, params, local, shared, work)
        aligned = jax.tree.map(lambda y, g: y - align_lr * g, params, g)
        params = tree.select(work.phase == ALIGN, aligned, params)
        params, optimizer = tree.select(
            work.phase == LOCAL,
            (trained, stepped["optimizer"]),
            (params, local["optimizer"]),
        )
        seen = jax.tree.map(lambda leaf: jnp.where(work.phase == LAST, leaf, 0), of_batch)
        square = jnp.where(work.phase == FISHER, tree.norm(g) ** 2, 0)
        return params, {
            **local,
            "optimizer": optimizer,
            "prototypes": tree.add(local["prototypes"], seen),
            "trace": local["trace"] + square,
        }

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"w": variables}, effort=local["trace"])

    def personal_model(shared, row):
        del shared
        return row["w"]

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        travel=Travel(shares=shares),
        scored=Scored(personal_model),
        phases=(
            LocalPhase("last", steps=1, whole=True),
            LocalPhase("align", steps=align_epochs, whole=True),
            LocalPhase("local"),
            LocalPhase("fisher", steps=1, whole=True),
        ),
        needs=frozenset({"classes", "features", "solo"}),
    )
