"""Model and loss as a task: masked mean loss and its gradient."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from fedsim.types import Batch, Model, Task


def cross_entropy(outputs, y):
    """−log softmax(outputs)[y], natural logarithm -> `[B]`."""
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y)


def squared(outputs, y):
    """½‖outputs − y‖² per row -> `[B]`; labels stand for their unit vectors."""
    if jnp.issubdtype(y.dtype, jnp.integer):
        y = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
    difference = outputs.reshape(len(y), -1) - y.reshape(len(y), -1)
    return 0.5 * jnp.sum(difference * difference, axis=1)


LOSSES: dict[str, Callable] = {"cross_entropy": cross_entropy, "squared": squared}


def task(model: Model, loss: Callable, optimizer: Callable, rate: Callable, classes: int) -> Task:
    """What a client works on: `value_and_grad` is over the mean of the valid rows of one batch."""

    def mean(each, mask):
        return jnp.sum(jnp.where(mask, each, 0)) / jnp.maximum(jnp.sum(mask), 1).astype(each.dtype)

    def mean_loss(params, stats, batch: Batch):
        variables = {"params": params, "stats": stats}
        outputs, stats = model.apply(variables, batch.x, mask=batch.mask, key=batch.key, train=True)
        return mean(loss(outputs, batch.y), batch.mask), stats

    def value_and_grad(variables, batch: Batch, objective: Callable | None = None):
        if objective is None:
            return jax.value_and_grad(mean_loss, has_aux=True)(variables["params"], variables["stats"], batch)

        def mean_objective(params, stats):
            variables = {"params": params, "stats": stats}
            outputs, stats = model.apply(variables, batch.x, mask=batch.mask, key=batch.key, train=True)
            reported = mean(loss(outputs, batch.y), batch.mask)  # the loss, whatever is minimised
            return mean(objective(variables, outputs, batch), batch.mask), (reported, stats)

        (_, reported), g = jax.value_and_grad(mean_objective, has_aux=True)(variables["params"], variables["stats"])
        return reported, g

    return Task(value_and_grad, model.apply, loss, optimizer, rate, classes, model.features)
