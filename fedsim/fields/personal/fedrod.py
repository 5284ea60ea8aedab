"""FedRoD: a balanced shared head, and a personal head beside it."""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.fields.personal.fedper import shared_mask, unshared_leaves
from fedsim.types import Client, Scored


@client
def fedrod(personal: list[str] | None = None) -> Client:
    """A shared model trained for balanced classes, and a personal head that is added to its head.

    A local step, on one batch, from y = x:  y ← y − η_l ∇ of the cross-entropy of o + log n_i,
    where o are the outputs of y and n_i the client's samples of each class;
    v_i ← v_i − η_l ∇_v f_i of the body of y under the sum of its head and v_i. Both gradients are
    at the models before the step. The head is a linear layer, so that the sum of heads gives the
    sum of their outputs. All v_i begin at 0: a client that has not taken part has the shared model.

    State: v_i, a head for every client.    Sends: one model.    A step costs two gradients.
    Needs: classes.

    Args:
      personal: leaves of the head, as for `fedper`. Left out: the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Chen & Chao 2022, On Bridging Generic and Personalized Federated Learning for Image
      Classification, arXiv:2107.00778, Algorithm 1, with a linear personal head.
    """

    def head_of(params):
        return unshared_leaves(params, shared_mask(params, personal))

    def with_both_heads(params, head):
        return tree.fill_leaves(tree.add(head_of(params), head), params)

    def memory(shared, key):
        del key
        return {"head": tree.zeros_like(head_of(shared["params"]))}

    def personal_model(shared, row):
        params = with_both_heads(shared["params"], row["head"])
        return {"params": params, "stats": shared["stats"]}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, **row}

    def gradient(task, variables, batch, local, shared, work):
        del shared
        # A class that the client lacks has no share of the balanced softmax.
        has_samples = work.labels > 0
        prior = jnp.log(jnp.where(has_samples, work.labels, 1))

        def balanced(variables, outputs, batch):
            del variables
            return task.loss(jnp.where(has_samples, outputs + prior, -jnp.inf), batch.y)

        value, g = task.value_and_grad(variables, batch, balanced)
        both = {**variables, "params": with_both_heads(variables["params"], local["head"])}
        _, of_both = task.value_and_grad(both, batch)
        return value, (g, head_of(of_both))

    def step(task, g, params, local, shared, work):
        g, of_head = g
        head = jax.tree.map(lambda v, g: v - work.lr * g, local["head"], of_head)
        y, stepped = hooks.step(task, g, params, local, shared, work)
        return y, {**stepped, "head": head}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"head": local["head"]})

    return Client(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        needs=frozenset({"labels", "softmax", "solo"}),
        scored=Scored(personal_model),
    )
