"""What the server makes of its own samples: an update, as one more client's, and the loss of any
model on them.
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
from fedsim.engine.evaluation import even, in_batches, rows_of
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.lanes import LaneInputs
from fedsim.engine.layout import lay_out
from fedsim.engine.mesh import Mesh
from fedsim.engine.pack import Capacity, Width, roomy
from fedsim.engine.slots import RunCohort
from fedsim.engine.task import counted, per_label
from fedsim.fleet import Plan
from fedsim.tree import Tree
from fedsim.types import ServerLoss, Shared, Task

ALONE = Width(1, 1)  # the lanes and the block of a single client


class OwnSamples(NamedTuple):
    """Samples of the server in batches, the last one filled up."""

    x: Array | np.ndarray  # [n, E, ...]
    y: Array | np.ndarray  # [n, E, ...]
    count: Int[Array, ""] | np.int32  # samples


def own_samples(f: Federation) -> OwnSamples:
    """On the host, in batches no wider than those of evaluation."""
    n = len(f.server.y)
    E = even(n, rows_of(f))
    ((x, y),) = in_batches(f.server.x, f.server.y, E, -(-n // E))
    return OwnSamples(x, y, np.int32(n))


def server_loss(task: Task, shared: Shared, own: OwnSamples) -> ServerLoss:
    """`Context.server_loss`: of models whose other leaves and statistics are those of the shared
    variables.
    """
    return Partial(partial(_mean_loss, task), shared, own)


def _mean_loss(
    task: Task,
    shared: Shared,
    own: OwnSamples,
    params: Tree,
    batch: int | None = None,
    key: Key[Array, ""] | None = None,
) -> Float[Array, ""]:
    """Mean loss as it is evaluated: over samples, or over the tokens that have a label; one batch
    after another.
    """
    n, E = own.y.shape[:2]
    x, y = (part.reshape(n * E, *part.shape[2:]) for part in own[:2])
    index, valid = jnp.arange(n * E), jnp.arange(n * E) < own.count
    if batch is not None:
        assert key is not None
        E = even(batch, E)
        n = -(-batch // E)
        drawn = jax.random.randint(key, (batch,), 0, own.count)
        index, valid = jnp.pad(drawn, (0, n * E - batch)), jnp.arange(n * E) < batch
    variables = {"params": tree.filled(params, shared["params"]), "stats": shared["stats"]}

    def of_batch(rows: tuple[Array, Array]) -> tuple[Array, Array]:
        index, valid = rows
        labels = jnp.asarray(y)[index]
        outputs, _ = task.apply(
            variables, jnp.asarray(x)[index], mask=valid, key=jax.random.key(0), train=False
        )
        mask = counted(valid, labels)
        return jnp.sum(jnp.where(mask, per_label(task.loss(outputs, labels), labels), 0)), jnp.sum(
            mask
        )

    totals, counts = lax.map(of_batch, (index.reshape(n, E), valid.reshape(n, E)))
    return jnp.sum(totals) / jnp.maximum(jnp.sum(counts), 1).astype(totals.dtype)


class ServerTraining:
    """The server's own training: in every round a job of the local loop, as one more client's.

    Args:
      mesh: lanes of plain `sgd`.
      plan: of the run.
      dtype: of the floats handed over.
      root: of all randomness of the run.

    Attributes:
      steps: local steps of a round.
    """

    def __init__(self, mesh: Mesh, plan: Plan, dtype: np.dtype, root: Key[Array, ""]):
        self.mesh, self.plan, self.dtype = mesh, plan.of_server(), dtype
        self.steps, self.room = int(self.plan.steps[0]), room_of(self.plan)
        self.root = round_key(root, 0, Phase.REFERENCE)
        self.data = mesh.spread((self.plan.federation.train.x, self.plan.federation.train.y))

    def lend(self, sent: Shared, r: int) -> list[LaneInputs]:
        """What its lane reads in a round, from what was sent."""
        part = RunCohort(self.plan, self.plan.round(r)[0])
        layout = lay_out([part], 0, ALONE, self.room, self.dtype)
        bank = ({"params": sent["params"], "stats": sent["stats"], "aux": {}},)
        return self.mesh.lend(bank, (), layout, self.data, ((self.root,), r))


def room_of(plan: Plan) -> Capacity:
    """The shapes of the training of a single client, whose steps are the same in every round."""
    batch = plan.local.widest(plan.sizes)
    return Capacity(
        blocks=1,
        steps=roomy(int(plan.steps[0])),
        batch=batch,
        members=1,
        shards=1,
        seats=1,
        samples=len(plan.federation.train.y),
    )
