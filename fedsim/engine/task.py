"""Model and loss as a task: masked mean loss, its gradient, and one batched forward for evaluation."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedsim import tree
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

    def mean_loss(params, state, batch: Batch):
        variables = {"params": params, "state": state}
        outputs, state = model.apply(variables, batch.x, mask=batch.mask, key=batch.key, train=True)
        each = jnp.where(batch.mask, loss(outputs, batch.y), 0)
        return jnp.sum(each) / jnp.maximum(jnp.sum(batch.mask), 1).astype(each.dtype), state

    def value_and_grad(variables, batch: Batch):
        return jax.value_and_grad(mean_loss, has_aux=True)(variables["params"], variables["state"], batch)

    return Task(value_and_grad, model.apply, loss, optimizer, rate, classes)


def evaluator(task: Task) -> Callable:
    """-> jitted `(bank, x [E, ...], y [E, ...]) -> (loss [E], hit [E])`: one plain forward, no gradient."""

    @jax.jit
    def evaluate(bank, x, y):
        outputs, _ = task.apply(tree.take(bank, 0), x, mask=jnp.ones(len(x), bool), key=jax.random.key(0), train=False)
        hit = outputs.argmax(-1) == y if task.classes else jnp.zeros(len(x), bool)
        return task.loss(outputs, y), hit

    return evaluate


def in_batches(x: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of exactly `size` rows, the last one filled up with row 0: one shape, one compilation."""
    index = np.zeros(-(-len(x) // size) * size, np.int64)
    index[: len(x)] = np.arange(len(x))
    return ((x[part], y[part]) for part in index.reshape(-1, size))


def gathered(results: list, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Per-row losses and hits of evaluation batches as float64 `[n]`, the filling cut off."""
    loss, hit = (
        np.concatenate([np.asarray(part, np.float64) for part in parts])[:n] for parts in zip(*results, strict=True)
    )
    return loss, hit
