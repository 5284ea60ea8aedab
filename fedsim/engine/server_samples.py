"""What the server does with its own samples: train on them, and score any model on them.

It trains like one more client, which gives its own update.
"""

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
from fedsim.engine.frozen import merged_section
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.layout import lay_out
from fedsim.engine.mesh import Buffers, Mesh
from fedsim.engine.pack import Capacity, Width, rounded_up
from fedsim.engine.pieces import Pieces
from fedsim.engine.scoring.sets import even_batch, in_batches, largest_batch
from fedsim.engine.slots import RunCohort
from fedsim.engine.task import counted, per_label
from fedsim.fleet import Plan
from fedsim.tree import Tree
from fedsim.types import ServerLoss, Shared, Task

ALONE = Width(lanes=1, block=1)  # of a single client


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


def server_loss(task: Task, shared: Shared, samples: ServerSamples) -> ServerLoss:
    """Return `Context.server_loss`: the loss of any parameters on the server's samples.

    Args:
      task: model and loss.
      shared: the shared variables, which give leaves that the parameters lack, and statistics.
      samples: the server's samples.
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
      task: model and loss.
      shared: the shared variables.
      samples: the server's samples.
      params: the parameters that are scored.
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


class ServerTraining:
    """The server's own training: in every round, the work of one more client.

    Args:
      mesh: a lane of plain `sgd`.
      plan: the run's plan.
      dtype: dtype of the floats.
      root: the run's root key.
      frozen: leaves of the model that nobody trains.

    Attributes:
      root: the root key of this training.
    """

    def __init__(
        self, mesh: Mesh, plan: Plan, dtype: np.dtype, root: Key[Array, ""], frozen: Tree = ()
    ):
        self.mesh = mesh
        self.plan = plan.server_plan()
        self.dtype = dtype
        self.capacity = capacity_of_server(self.plan)
        self.root = round_key(root, 0, Phase.REFERENCE)
        train = self.plan.federation.train
        self.data = mesh.replicate((train.x, train.y))
        self.frozen = mesh.replicate(frozen)

    def update(
        self, sent: Shared, round: int, previous: Buffers | None, pieces: Pieces
    ) -> tuple[Tree, Buffers]:
        """Return the server's own update of a round, and the buffers that it was made in.

        Args:
          sent: the variables that were sent.
          round: the round.
          previous: buffers of a round before, which are reused.
          pieces: how the steps are cut into calls.
        """
        cohort, _ = self.plan.round(round)
        cohorts = [RunCohort(self.plan, cohort)]
        layout = lay_out(cohorts, 0, width=ALONE, capacity=self.capacity, dtype=self.dtype)
        variables = {"params": sent["params"], "stats": sent["stats"], "aux": {}}
        bank = ({**variables, **merged_section(sent)},)
        keys = ((self.root,), round)
        inputs = self.mesh.inputs(
            bank, memory=(), layout=layout, data=self.data, keys=keys, frozen=self.frozen
        )
        buffers = self.mesh.train_block(inputs, previous, layout, pieces)
        return _first_row(buffers.rows[0].message.delta), buffers


_first_row = jax.jit(lambda stack: tree.take(stack, 0))


def capacity_of_server(plan: Plan) -> Capacity:
    """Return the shapes of a single client's training, whose steps are the same in every round."""
    return Capacity(
        blocks=1,
        steps=rounded_up(int(plan.steps[0])),
        members=1,
        shards=1,
        seats=1,
        samples=len(plan.federation.train.y),
    )
