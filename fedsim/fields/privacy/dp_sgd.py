"""DP-SGD: gradients in which every sample has a bounded part, with noise on their sum."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key

from fedsim import tree
from fedsim.engine.task import counted
from fedsim.tree import Tree
from fedsim.types import Batch, Objective, Task, Work


def dp_sgd(
    clip: float, noise_multiplier: float, expected: int | None, microbatch: int | None = None
) -> Callable[[Task, Key[Array, ""], Work], Task]:
    """Return what makes the gradients of a local step private, for `engine.lanes`.

    g = (Σ_j g_j · min(1, C / ‖g_j‖₂) + N(0, (zC)² I)) / b, where g_j is the gradient of sample j of
    the batch, and b the expected size of a batch, whoever is in it. Batches are Poisson
    (`Local.poisson`); an empty one has the noise alone. A gradient that is not finite counts as 0,
    because no factor bounds it. The reported loss is the mean over the batch, without noise.

    Args:
      noise_multiplier: z; 0 draws no noise.
      expected: b, or all samples of a client that has fewer; None: all of every client.
      microbatch: samples whose gradients are held at a time; None: those of the batch.

    References:
      Abadi et al. 2016, Deep Learning with Differential Privacy, arXiv:1607.00133, Algorithm 1.
    """

    def private(task: Task, key: Key[Array, ""], work: Work) -> Task:
        size = work.samples if expected is None else jnp.minimum(expected, work.samples)

        def value_and_grad(variables: Tree, batch: Batch, objective: Objective | None = None):
            loss, total = _clipped_sum(task, variables, batch, objective, clip, microbatch)
            if noise_multiplier > 0:
                noise = tree.normal(total, key)
                total = tree.add(total, tree.scale(noise, noise_multiplier * clip))
            return (loss, variables["stats"]), tree.over(total, size)

        return task._replace(value_and_grad=value_and_grad)

    return private


def _clipped_sum(
    task: Task,
    variables: Tree,
    batch: Batch,
    objective: Objective | None,
    clip: float,
    microbatch: int | None,
) -> tuple[Float[Array, ""], Tree]:
    """Return the mean loss of a batch, and the sum of its samples' clipped gradients.

    Args:
      objective: what is minimised in place of the loss, as of `ValueAndGrad`.
    """
    rows = len(batch.mask)
    held = min(microbatch or rows, rows)
    parts = -(-rows // held)

    def in_parts(column: Array) -> Array:  # [B, ...] -> [parts, held, ...]
        padding = [(0, parts * held - rows)] + [(0, 0)] * (column.ndim - 1)
        return jnp.pad(column, padding).reshape(parts, held, *column.shape[1:])

    def add_part(total, part):
        number, x, y, mask = part
        key = jax.random.fold_in(batch.key, number)
        samples = Batch(x=x, y=y, mask=mask, key=key, step=batch.step)
        (losses, _), gradients = task.per_sample(variables, samples, objective)
        clipped = jax.vmap(lambda g: tree.clipped(g, clip))(gradients)
        usable = mask & tree.finite_rows(gradients, held)
        return tree.fold(total, clipped, usable.astype(losses.dtype)), losses

    columns = (jnp.arange(parts), *map(in_parts, (batch.x, batch.y, batch.mask)))
    total, losses = lax.scan(add_part, tree.zeros_like(variables["params"]), columns)
    labels = _labels(batch).astype(losses.dtype)  # [B]
    weighted = jnp.where(labels > 0, losses.reshape(-1)[:rows] * labels, 0)
    return weighted.sum() / jnp.maximum(labels.sum(), 1), total


def _labels(batch: Batch) -> Array:
    """Return how many labels of each row count `[B]`: 1, or its labelled tokens."""
    labels = counted(batch.mask, batch.y)
    return labels.reshape(len(batch.mask), -1).sum(axis=1)
