"""The loss of any model on the server's samples."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, Key

from fedsim import tree
from fedsim.data import Federation
from fedsim.engine.scoring.sets import even_batch, in_batches, largest_batch
from fedsim.engine.task import counted, per_label
from fedsim.tree import Tree
from fedsim.types import ServerLoss, Shared, Task


class ServerSamples(NamedTuple):
    """The server's samples in batches, the last one filled up."""

    x: Array | np.ndarray  # [n, E, ...]
    y: Array | np.ndarray  # [n, E, ...]
    count: Int[Array, ""] | np.int32  # samples


def server_samples(f: Federation) -> ServerSamples:
    """Return the server's samples on the host, in batches no wider than those of evaluation."""
    n = len(f.server.y)
    E = even_batch(n, largest_batch(f))
    batches = -(-n // E)
    ((x, y),) = in_batches(f.server.x, f.server.y, E, batches)
    return ServerSamples(x, y, np.int32(n))


def server_loss(samples: ServerSamples, task: Task, shared: Shared) -> ServerLoss:
    """Return `Context.server_loss`: the loss of any parameters on the server's samples.

    Args:
      shared: the shared variables, which give leaves that the parameters lack, and statistics.
    """
    return Partial(partial(_mean_loss, task), shared, samples)


def _mean_loss(
    task: Task,
    shared: Shared,
    samples: ServerSamples,
    params: Tree,
    batch: int | None = None,
    key: Key[Array, ""] | None = None,
) -> Float[Array, ""]:
    """Return the mean loss over samples, or over the tokens that have a label, batch by batch.

    Args:
      batch: samples to draw with replacement; None: all samples.
      key: draws them.
    """
    n, E = samples.y.shape[:2]
    x = samples.x.reshape(n * E, *samples.x.shape[2:])
    y = samples.y.reshape(n * E, *samples.y.shape[2:])
    index = jnp.arange(n * E)
    valid = jnp.arange(n * E) < samples.count
    if batch is not None:
        assert key is not None
        E = even_batch(batch, E)
        n = -(-batch // E)
        drawn = jax.random.randint(key, (batch,), 0, samples.count)
        index = jnp.pad(drawn, (0, n * E - batch))
        valid = jnp.arange(n * E) < batch
    variables = {"params": tree.fill_leaves(params, shared["params"]), "stats": shared["stats"]}

    def of_batch(rows: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return the sum of a batch's losses, and how many labels it is over."""
        index, valid = rows
        labels = jnp.asarray(y)[index]
        outputs, _ = task.apply(
            variables, jnp.asarray(x)[index], mask=valid, key=jax.random.key(0), train=False
        )
        mask = counted(valid, labels)
        losses = per_label(task.loss(outputs, labels), labels)
        return jnp.sum(jnp.where(mask, losses, 0)), jnp.sum(mask)

    totals, counts = lax.map(of_batch, (index.reshape(n, E), valid.reshape(n, E)))
    return jnp.sum(totals) / jnp.maximum(jnp.sum(counts), 1).astype(totals.dtype)
