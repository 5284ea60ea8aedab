"""The programs of the pass at the global model: one more message of every client, before it trains, whose mean is
sent out with the model.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.sending import Sent
from fedsim.engine.serving import (
    Messages,
    RoundStart,
    ServerState,
    contexts_of,
    placed_bytes,
    received,
)
from fedsim.tree import Tree
from fedsim.types import Shared, Task, reported


class ProbeSum(NamedTuple):
    """Sum of the messages of a round's pass at the global model."""

    delta: Tree
    arrived: Float[Array, ""]
    bytes: Int[Array, " rows"]  # by slot


class Probing:
    """Adds up the messages of the pass at the global model, and sends their mean out.

    Args:
      pipeline: of the messages.
      task: of the run.
      rows: of the largest cohort, in whole blocks.
    """

    def __init__(self, pipeline: Pipeline, task: Task, rows: int):
        self.pipeline, self.task, self.rows = pipeline, task, rows

    @jitted
    def add(
        self,
        total: ProbeSum | None,
        messages: Messages,
        at: RoundStart,
        first: Int[Array, ""] | int,
    ) -> ProbeSum:
        """With those of the slots from `first` on: they travel like those of the training, and
        count alike.
        """
        slots, pipeline = messages.slots, self.pipeline
        contexts = contexts_of(pipeline, self.task, at, slots)
        arrived = pipeline.arrive(received(messages), at.server.state, contexts, Phase.PROBE)[0]
        zero = jnp.zeros_like(arrived.samples[0])
        w = reported(arrived)
        so_far = total or ProbeSum(
            tree.zero_row(arrived.delta), zero, jnp.zeros(self.rows, jnp.int32)
        )
        delta, count = tree.fold(
            (so_far.delta, so_far.arrived), (arrived.delta, jnp.ones_like(w)), w
        )
        return ProbeSum(delta, count, placed_bytes(so_far.bytes, arrived, slots, first))

    @jitted
    def send(self, total: ProbeSum, server: ServerState, sent: Sent) -> tuple[ServerState, Sent]:
        """The server, and what was sent, with the mean of the pass."""
        mean = self.pipeline.decoded(tree.divide(total.delta, total.arrived), server.shared)

        def with_mean(shared: Shared) -> Shared:
            return {**shared, "aux": {**shared["aux"], "probe": mean}}

        return server._replace(shared=with_mean(server.shared)), sent._replace(
            shared=with_mean(sent.shared)
        )
