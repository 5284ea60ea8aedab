"""The plain ways to run a round in JAX, which the lanes are compared with.

They have the same plan and the same numbers as the lanes, in other loops. All three give what one
round of `mean` gives (a test); they are written as one would by hand, and fast for what they are.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedsim import tree
from fedsim.fleet import Plan
from fedsim.types import Batch, Task


class Cohort(NamedTuple):
    """A round's clients `[K]`, padded to the longest one."""

    index: np.ndarray  # [K, T, B] rows of the training samples
    valid: np.ndarray  # [K, T] rows of a batch that count, 0 = no step
    steps: np.ndarray  # [K]
    weight: np.ndarray  # [K]


def cohort(plan: Plan, r: int, T: int, B: int, dtype: np.dtype) -> Cohort:
    """Return round r of a plan, for at most T steps of B samples."""
    work, _ = plan.round(r)
    K = len(work.ids)
    index = np.zeros((K, T, B), np.int32)
    valid = np.zeros((K, T), np.int32)
    for k, id in enumerate(work.ids):
        rows, count = plan.work.batches(r, int(id))  # [steps, rows of a batch], [steps]
        index[k, : len(rows), : rows.shape[1]] = rows
        valid[k, : len(rows)] = count
    return Cohort(index, valid, work.steps.astype(np.int32), work.weight.astype(dtype))


def rivals(task: Task, lr: float) -> dict[str, Callable]:
    """Return rounds `(shared, cohort, data) -> shared` by name."""

    def step(shared, params, rows, n, data):
        x, y = data
        batch = Batch(
            x[rows],
            y[rows],
            jnp.arange(rows.shape[0]) < n,
            jax.random.key(0),
            jnp.zeros((), jnp.int32),
        )
        _, g = task.value_and_grad({"params": params, "stats": shared["stats"]}, batch)
        return jax.tree.map(lambda p, g: p - jnp.where(n > 0, lr, 0) * g, params, g)

    def train_padded(shared, index, valid, data):
        """One client, all its padded steps."""

        def walk(params, batch):
            rows, n = batch
            return step(shared, params, rows, n, data), None

        params, _ = lax.scan(walk, shared["params"], (index, valid))
        return tree.subtract(params, shared["params"])

    def train_exactly(shared, index, valid, steps, data):
        """One client, exactly its steps."""

        def walk(t, params):
            return step(shared, params, index[t], valid[t], data)

        params = lax.fori_loop(0, steps, walk, shared["params"])
        return tree.subtract(params, shared["params"])

    def moved(shared, deltas, weight):
        """The shared variables after a round."""
        return {**shared, "params": tree.add(shared["params"], tree.weighted_mean(deltas, weight))}

    @jax.jit
    def padded_vmap(shared, c: Cohort, data):
        train = jax.vmap(train_padded, in_axes=(None, 0, 0, None))
        return moved(shared, train(shared, c.index, c.valid, data), c.weight)

    @jax.jit
    def scan_over_clients(shared, c: Cohort, data):
        def train(client):
            index, valid, steps = client
            return train_exactly(shared, index, valid, steps, data)

        deltas = lax.map(train, (c.index, c.valid, c.steps))
        return moved(shared, deltas, c.weight)

    one_step = jax.jit(step)
    stack_and_move = jax.jit(lambda shared, deltas, w: moved(shared, tree.stack(deltas), w))

    def python_loop(shared, c: Cohort, data):
        deltas = []
        for k in range(len(c.weight)):
            params = shared["params"]
            for t in range(int(c.steps[k])):
                params = one_step(shared, params, c.index[k, t], c.valid[k, t], data)
            deltas.append(tree.subtract(params, shared["params"]))
        return stack_and_move(shared, deltas, jnp.asarray(c.weight))

    return {
        "padded vmap": padded_vmap,
        "scan over clients": scan_over_clients,
        "Python loop": python_loop,
    }
