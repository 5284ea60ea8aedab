"""Weights of classes by each client's own samples."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedsim.types import Client, Task


def balancing(inner: Client) -> Client:
    """Return a method whose clients minimise a loss in which their own classes count the same.

    A sample of class c counts n_i / (C_i n_{i,c}), with the n_i samples of the client, of which
    n_{i,c} are of the class, and the C_i classes that it has. Losses are reported without weights.
    """

    def gradient(task, variables, batch, local, shared, work):
        weighing = of_client(task, balanced(work.labels))
        return inner.gradient(weighing, variables, batch, local, shared, work)

    probe = None if inner.probe is None else balancing(inner.probe)
    return inner._replace(gradient=gradient, probe=probe, needs=inner.needs | {"labels"})


def balanced(labels: Float[Array, " C"]) -> Float[Array, " C"]:
    """Return the weights of a client's classes from its samples of each, 1 for those it lacks."""
    occurs = labels > 0
    share = labels.sum() / jnp.maximum(occurs.sum(), 1)
    return jnp.where(occurs, share / jnp.where(occurs, labels, 1), 1)


def of_client(task: Task, weights: Float[Array, " C"]) -> Task:
    """Return a task in which the loss that is minimised has weights of classes."""
    unweighted = task.loss

    def weighted(outputs, y):
        return weights[y] * unweighted(outputs, y)

    def plain_objective(variables, outputs, batch):
        return weighted(outputs, batch.y)

    def value_and_grad(variables, batch, objective=None):
        return task.value_and_grad(variables, batch, objective or plain_objective)

    def per_sample(variables, batch, objective=None):
        return task.per_sample(variables, batch, objective or plain_objective)

    return task._replace(
        loss=unweighted._replace(of=weighted),
        value_and_grad=value_and_grad,
        per_sample=per_sample,
    )
