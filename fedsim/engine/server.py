"""Steps 3 and 4 of a round, as programs: wire, filter, stages, rule, optimisers.

A cohort comes block by block. Where every stage works on one row and the rule is a sum, each block
is added and forgotten (`Summing`); otherwise the messages are gathered, and the round is closed
over the whole stack (`Stacking`). Behind either, the sections of the shared variables close
together: `params` by the rule, `stats` by the weights that the rule used, `aux` by the reducer that
the client method declared.
"""

import copy
from typing import Any

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import ServerStep, server_step
from fedsim.engine import sections
from fedsim.engine.deviation import Deviations, Distances
from fedsim.engine.jitted import jitted, jitted_with
from fedsim.engine.memory import Memories, Memory
from fedsim.engine.pipeline import Pipeline, uncounted
from fedsim.engine.probing import Probing
from fedsim.engine.sending import Sender
from fedsim.engine.serving import Outcome, RoundStart, Served, ServerState, is_finite
from fedsim.engine.slots import Slots
from fedsim.engine.stacking import Stacking
from fedsim.engine.summing import Summing
from fedsim.types import Codec, Shared, Task


class Server:
    """The programs of one pipeline and the optimisers behind it.

    Args:
      pipeline: links between the clients of a method and the optimisers.
      task: of the reducers of the method's `aux`.
      broadcast: by which the parameters are sent out; None: as they are.
      memories: of the client method alone, where others use the same; left out: its own.
      deviations: of another pipeline with the same wire; left out: of this one.
      block: rows of a block.
      blocks: blocks of the largest cohort.

    Attributes:
      memories: what the client method and stages remember of every client.
      sender: what the clients get.
      reduction: how their messages become one tree.
      probing: the pass at the global model.
      distances: how far the aggregate lies from honest clients.
      asks_loss: whether clients send their loss at the global model.
      probes: whether a round has a pass at the global model before training.
      refers: whether the rule asks for the server's own update.
      scores: whether it asks for losses on the server's own samples.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        task: Task,
        broadcast: Codec | None = None,
        memories: Memories | None = None,
        deviations: Deviations | None = None,
        *,
        block: int,
        blocks: int,
    ):
        rule, client, rows = pipeline.rule, pipeline.client, blocks * block
        own = Memories(client, pipeline.remembering)
        self.pipeline = pipeline
        self.task = task
        self.client = client
        self.optimiser = server_step()
        self.memories = memories if memories and not pipeline.remembering else own
        self.sender = Sender(pipeline, broadcast)
        self.reduction = (Summing if pipeline.folds else Stacking)(
            pipeline, task, self.memories, rows
        )
        self.probing = Probing(pipeline, task, rows)
        shared_ones = deviations if deviations is not None and not pipeline.aims else None
        self.distances = Distances(pipeline, task, shared_ones or Deviations(pipeline, task))
        self.asks_loss = "loss" in rule.needs
        self.probes = self.asks_loss or client.probe is not None
        self.refers = "reference" in rule.needs
        self.scores = "server_loss" in rule.needs

    def with_optimiser(self, optimiser: ServerStep) -> "Server":
        """The same with optimisers behind the rule: what comes before them is compiled once,
        whichever they are.
        """
        other = copy.copy(self)
        for name in ("init", "close"):  # compiled for this server, where it was asked already
            other.__dict__.pop(name, None)
        other.optimiser = optimiser
        return other

    @jitted
    def init(self, shared: Shared, present: Any) -> ServerState:
        """A fresh server around the start variables; `present`: the clients that can take part."""
        params = self.pipeline.travelling(shared)
        state = {**self.pipeline.init(params, present), "optimiser": self.optimiser.init(params)}
        return jax.tree.map(jnp.asarray, ServerState(shared, {**state, **self.sender.init(params)}))

    @jitted_with(donate=(1,))
    def close(self, total: Any, memory: Memory, slots: Slots, at: RoundStart) -> Served:
        """The next server, of all sections together; the old one where too little arrived.

        Args:
          total: the round's messages: a `Sum`, or `Messages` that were gathered.
          memory: of the clients.
          slots: of the last block.
          at: the round.
        """
        server = at.server
        closed = self.reduction.close(total, memory, slots, at)

        # The step of the optimisers, unless too little arrived.
        old, state, counts = self.pipeline.travelling(server.shared), closed.state, closed.counts
        step, state["optimiser"] = self.optimiser.apply(
            closed.aggregate, server.state["optimiser"], old
        )
        skipped = self.pipeline.skips(counts.usable)
        params, state = tree.select(skipped, (old, server.state), (tree.add(old, step), state))

        # The sections that the rule does not touch.
        rest = sections.closed(
            closed.sections,
            server.shared,
            closed.aggregate,
            skipped,
            self.client,
            self.task,
            at.clients,
        )
        if at.flown is not None:  # the schedule mixes models: statistics like parameters
            before = server.shared["stats"]
            moved = tree.scale(tree.subtract(rest["stats"], before), at.flown.share)
            rest["stats"] = tree.add(before, moved)

        outcome = Outcome(
            reported=counts.reported,
            nonfinite=counts.nonfinite,
            usable=counts.usable,
            skipped=skipped,
            finite=is_finite(params),
            info=uncounted(skipped, closed.info),
            bytes=closed.bytes,
        )
        whole = tree.filled(params, server.shared["params"])
        return Served(
            ServerState({"params": whole, **rest}, state), closed.memory, outcome, closed.row
        )
