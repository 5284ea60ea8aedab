"""Model and loss as a task: the masked mean loss and its gradient, or those of every sample."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose.shapes import ContractError
from fedsim.sources.arrays import is_per_token
from fedsim.types import Batch, Loss, Model, Task


def counted(mask, y):
    """Return which labels of a batch count.

    Args:
      mask: rows of the batch that count `[B]`.
      y: labels `[B, ...]`; tokens `[B, T]` without a label have a negative one.

    Returns:
      `mask` `[B]`, or the labelled tokens of those rows `[B, T]`.
    """
    if is_per_token(y):
        return mask[:, None] & (y >= 0)
    return mask


def per_label(losses, y):
    """Return losses `[B]` or `[B, T]`, one for each label; tokens have their row's loss."""
    if is_per_token(y) and losses.ndim == 1:
        return jnp.broadcast_to(losses[:, None], y.shape)
    return losses


def _masked_mean(losses, mask, y):
    """Mean of the losses over the labels that count; 0 where none does."""
    losses = per_label(losses, y)
    mask = counted(mask, y)
    total = jnp.sum(jnp.where(mask, losses, 0))
    return total / jnp.maximum(jnp.sum(mask), 1).astype(losses.dtype)


def _without_filling(batch: Batch) -> Batch:
    """A batch whose targets are 0 in rows that do not count."""
    is_row = batch.mask.reshape(-1, *(1,) * (batch.y.ndim - 1))
    return batch._replace(y=jnp.where(is_row, batch.y, 0))


def task(model: Model, loss: Loss, optimizer: Callable, rate: Callable, classes: int) -> Task:
    """Return what a client works on.

    `value_and_grad` is of the mean loss over a batch's valid rows, or over their labelled tokens.
    `per_sample` is of the loss of each row, or of the mean over its labelled tokens.

    Args:
      optimizer: learning rate -> the client's optimiser.
      rate: (the round's learning rate, local step) -> the step's learning rate.
      classes: number of classes; 0: not a classification.
    """

    def mean_loss(params, variables, batch: Batch):
        variables = {**variables, "params": params}
        outputs, stats = model.apply(variables, batch.x, mask=batch.mask, key=batch.key, train=True)
        return _masked_mean(loss(outputs, batch.y), batch.mask, batch.y), stats

    def value_and_grad(variables, batch: Batch, objective: Callable | None = None):
        params = variables["params"]
        if loss.of_set is not None:
            batch = _without_filling(batch)
        if objective is None:
            return jax.value_and_grad(mean_loss, has_aux=True)(params, variables, batch)

        def mean_objective(params):
            moved = {**variables, "params": params}
            outputs, stats = model.apply(moved, batch.x, mask=batch.mask, key=batch.key, train=True)
            # The loss is reported, whatever is minimised.
            reported = _masked_mean(loss(outputs, batch.y), batch.mask, batch.y)
            minimised = objective(moved, outputs, batch)
            return _masked_mean(minimised, batch.mask, batch.y), (reported, stats)

        (_, reported), g = jax.value_and_grad(mean_objective, has_aux=True)(params)
        return reported, g

    def per_sample(variables, batch: Batch, objective: Callable | None = None):
        if loss.of_set is not None:
            raise ContractError(
                "asks for the gradient of every sample, and this loss compares the rows of a batch"
            )
        if model.mixes_rows or jax.tree.leaves(variables["stats"]):
            raise ContractError(
                "asks for the gradient of every sample, and the rows of a batch see each other "
                "in this model; take one without statistics of its batches"
            )

        def of_row(x, y, valid, index):
            row = Batch(
                x=x[None],
                y=y[None],
                mask=valid[None],
                key=jax.random.fold_in(batch.key, index),
                step=batch.step,
            )
            (loss, _), g = value_and_grad(variables, row, objective)
            return tree.select(valid, (loss, g), tree.zeros_like((loss, g)))

        index = jnp.arange(len(batch.mask))
        losses, gradients = jax.vmap(of_row)(batch.x, batch.y, batch.mask, index)
        return (losses, variables["stats"]), gradients

    return Task(
        value_and_grad=value_and_grad,
        per_sample=per_sample,
        apply=model.apply,
        loss=loss,
        optimizer=optimizer,
        rate=rate,
        classes=classes,
        features=model.features,
    )
