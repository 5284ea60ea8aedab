"""Model and loss as a task: masked mean loss, its gradient, and one batched forward for evaluation."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from fedsim import tree
from fedsim.engine.threads import compiled
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
            now = {"params": params, "stats": stats}
            outputs, stats = model.apply(now, batch.x, mask=batch.mask, key=batch.key, train=True)
            # what is told of training is the loss, whatever is minimised
            met = mean(loss(outputs, batch.y), batch.mask)
            return mean(objective(now, outputs, batch), batch.mask), (met, stats)

        (_, met), g = jax.value_and_grad(mean_objective, has_aux=True)(variables["params"], variables["stats"])
        return met, g

    return Task(value_and_grad, model.apply, loss, optimizer, rate, classes, model.features)


def evaluator(forward: Callable, loss: Callable, labelled: bool) -> Callable:
    """A model's `apply` and a loss per row -> compiled `(bank, x [n, E, ...], y [n, E]) -> (loss [n, E], hit [n, E])`.

    One plain forward per batch, no gradient; without labels nothing is a hit.
    """

    def evaluate(bank, x, y):
        variables = tree.take(bank, 0)

        def batch(pair):
            x, y = pair
            outputs, _ = forward(variables, x, mask=jnp.ones(len(x), bool), key=jax.random.key(0), train=False)
            return loss(outputs, y), outputs.argmax(-1) == y if labelled else jnp.zeros(len(x), bool)

        return lax.map(batch, (x, y))

    return compiled(evaluate)


def even(rows: int, most: int) -> int:
    """Rows of a batch, at most `most`, so that batches of `rows` rows are about equally full."""
    return -(-rows // max(-(-rows // most), 1))


def in_batches(x: np.ndarray, y: np.ndarray, E: int, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stacks of n batches of E rows, the last one filled up with row 0: one shape, one compilation."""
    for first in range(0, len(x), n * E):
        index = np.arange(first, first + n * E)
        index = np.where(index < len(x), index, 0).reshape(n, E)
        yield x[index], y[index]


def gathered(results: list, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Per-row losses and hits of stacks of batches as float64 `[n]`, the filling cut off."""
    loss, hit = (
        np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])[:n]
        for parts in zip(*results, strict=True)
    )
    return loss, hit
