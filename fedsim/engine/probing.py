"""The programs of the pass at the global model.

Every client sends one more message before it trains. The mean of these messages is sent out with
the model.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.keys import Phase
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.sending import Broadcast
from fedsim.engine.server_records import (
    Messages,
    RoundStart,
    ServerState,
    contexts_of,
    sent_updates,
    with_bytes,
)
from fedsim.tree import Tree
from fedsim.types import Shared, reported


class ProbeSum(NamedTuple):
    """Sum of the messages of a round's pass at the global model."""

    delta: Tree
    arrived: Float[Array, ""]
    bytes: Int[Array, " rows"]  # of every slot's message


class Probing:
    """Sums the messages of the pass at the global model, and sends their mean.

    Args:
      rows: rows of the largest cohort, in full blocks.
    """

    def __init__(self, pipeline: Pipeline, rows: int):
        self.pipeline = pipeline
        self.rows = rows

    @jitted
    def add(
        self,
        total: ProbeSum | None,
        messages: Messages,
        start: RoundStart,
        first_slot: Int[Array, ""] | int,
    ) -> ProbeSum:
        """Add the messages of a block; they pass the wire like those of the training.

        Args:
          total: the sum over the blocks before; None: this is the first.
        """
        slots = messages.slots
        contexts = contexts_of(self.pipeline, start, slots)
        arrived = self.pipeline.arrive(
            sent_updates(messages), start.server.state, contexts, Phase.PROBE
        ).updates
        zero = jnp.zeros_like(arrived.samples[0])
        weights = reported(arrived)
        if total is None:
            total = ProbeSum(
                delta=tree.zero_row(arrived.delta),
                arrived=zero,
                bytes=jnp.zeros(self.rows, jnp.int32),
            )

        delta, count = tree.fold(
            (total.delta, total.arrived), (arrived.delta, jnp.ones_like(weights)), weights
        )
        return ProbeSum(delta, count, with_bytes(total.bytes, arrived, slots, first_slot))

    @jitted
    def with_mean(
        self, total: ProbeSum, server: ServerState, broadcast: Broadcast
    ) -> tuple[ServerState, Broadcast]:
        """Return the server and its broadcast with the mean of the pass in `aux`."""
        mean = tree.divide(total.delta, total.arrived)
        mean = self.pipeline.decoded(mean, server.shared)

        def with_probe(shared: Shared) -> Shared:
            return {**shared, "aux": {**shared["aux"], "probe": mean}}

        server = server._replace(shared=with_probe(server.shared))
        return server, broadcast._replace(shared=with_probe(broadcast.shared))
