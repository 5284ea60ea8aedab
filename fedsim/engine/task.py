"""Model and loss as a task: masked mean loss and its gradient, or those of every sample."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from fedsim import tree
from fedsim.compose.shapes import ContractError
from fedsim.sources.arrays import per_token
from fedsim.types import Batch, Model, Task


def cross_entropy(outputs, y):
    """−log softmax(outputs)[y], natural logarithm -> `[B]`, or `[B, T]` where every token has a label."""
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y)


def squared(outputs, y):
    """½‖outputs − y‖² per row -> `[B]`; labels stand for their unit vectors."""
    if jnp.issubdtype(y.dtype, jnp.integer):
        y = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
    difference = outputs.reshape(len(y), -1) - y.reshape(len(y), -1)
    return 0.5 * jnp.sum(difference * difference, axis=1)


LOSSES: dict[str, Callable] = {"cross_entropy": cross_entropy, "squared": squared}


def counted(mask, y):
    """Which labels of a batch count: those of the rows in `mask` `[B]`; of their tokens, those that have one `[B, T]`."""
    return mask[:, None] & (y >= 0) if per_token(y) else mask


def per_label(each, y):
    """Losses `[B]` or `[B, T]`, one for each label: that of a row stands for each of its tokens."""
    return jnp.broadcast_to(each[:, None], y.shape) if per_token(y) and each.ndim == 1 else each


def task(model: Model, loss: Callable, optimizer: Callable, rate: Callable, classes: int) -> Task:
    """What a client works on: `value_and_grad` is over the mean of one batch, of its valid rows, or their labelled tokens;
    `per_sample` over each row, or the mean of its labelled tokens.
    """

    def mean(each, mask, y):
        each, mask = per_label(each, y), counted(mask, y)
        return jnp.sum(jnp.where(mask, each, 0)) / jnp.maximum(jnp.sum(mask), 1).astype(each.dtype)

    def mean_loss(params, stats, batch: Batch):
        variables = {"params": params, "stats": stats}
        outputs, stats = model.apply(variables, batch.x, mask=batch.mask, key=batch.key, train=True)
        return mean(loss(outputs, batch.y), batch.mask, batch.y), stats

    def value_and_grad(variables, batch: Batch, objective: Callable | None = None):
        if objective is None:
            return jax.value_and_grad(mean_loss, has_aux=True)(
                variables["params"], variables["stats"], batch
            )

        def mean_objective(params, stats):
            variables = {"params": params, "stats": stats}
            outputs, stats = model.apply(
                variables, batch.x, mask=batch.mask, key=batch.key, train=True
            )
            reported = mean(
                loss(outputs, batch.y), batch.mask, batch.y
            )  # the loss, whatever is minimised
            return mean(objective(variables, outputs, batch), batch.mask, batch.y), (
                reported,
                stats,
            )

        (_, reported), g = jax.value_and_grad(mean_objective, has_aux=True)(
            variables["params"], variables["stats"]
        )
        return reported, g

    def per_sample(variables, batch: Batch, objective: Callable | None = None):
        if model.mixes_rows or jax.tree.leaves(variables["stats"]):
            text = "asks for the gradient of every sample, and the rows of a batch see each other in this model"
            raise ContractError(f"{text}; take one without statistics of its batches")

        def one(x, y, real, place):
            row = Batch(
                x[None], y[None], real[None], jax.random.fold_in(batch.key, place), batch.step
            )
            (loss, _), g = value_and_grad(variables, row, objective)
            return tree.select(real, (loss, g), tree.zeros_like((loss, g)))

        losses, gradients = jax.vmap(one)(batch.x, batch.y, batch.mask, jnp.arange(len(batch.mask)))
        return (losses, variables["stats"]), gradients

    return Task(
        value_and_grad, per_sample, model.apply, loss, optimizer, rate, classes, model.features
    )
