"""The programs of a run's server: what it sends, how it aggregates, how it is updated.

A cohort comes block by block. If every stage works on one row and the rule is a sum, each block is
accumulated and discarded (`Summing`). Otherwise the messages are gathered, and the rule sees the
full stack (`Stacking`). After either, all sections of the shared variables are updated together:
`params` by the rule and the optimisers, `stats` by the weights that the rule used, `aux` by the
reducers that the client method declares.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.compose import ServerStep, server_step
from fedsim.engine import sections
from fedsim.engine.close import Kept, close_round
from fedsim.engine.jitted import jitted, jitted_with, without_programs
from fedsim.engine.memory import Memories, Memory
from fedsim.engine.pipeline import Pipeline, without_counts
from fedsim.engine.probing import Probing
from fedsim.engine.recording import Recording
from fedsim.engine.sending import Sender
from fedsim.engine.server_records import (
    Aggregated,
    RoundReport,
    RoundStart,
    ServerState,
    ServerUpdate,
    is_finite,
)
from fedsim.engine.slots import Slots
from fedsim.engine.stacking import Stacking
from fedsim.engine.summing import Summing
from fedsim.tree import Tree
from fedsim.types import Shared


class Server:
    """The programs of one pipeline and of the optimisers behind it; its state is `ServerState`.

    Args:
      pipeline: the chain from the clients' messages to the aggregate; it knows the task.
      sender: what the clients receive; None: the server's variables as they are.
      memories: memories of the client method alone, shared between servers; ignored if stages
        remember clients too; None: made here.
      rows: rows of the largest cohort, in full blocks.

    Attributes:
      kept: states that only some servers have; they change in this order.
      aggregator: how their messages become one tree.
      stacks: whether it holds all messages of a round together.
      needs_client_loss: whether clients send their loss at the global model.
      needs_choice: whether clients choose one of several models before they train.
      needs_probe: whether a round has a pass at the global model before training.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        sender: Sender | None = None,
        memories: Memories | None = None,
        *,
        rows: int,
        kept: Sequence[Kept] = (),
    ):
        rule = pipeline.rule
        client = pipeline.client
        self.pipeline = pipeline
        assert pipeline.task is not None
        self.task = pipeline.task
        self.client = client
        self.sender = sender or Sender(pipeline)
        self.kept = [*self.sender.kept, *kept]

        # Without optimisers, the aggregate is the step; `with_optimiser` adds them.
        self.optimiser = server_step()

        # Where stages remember clients too, the memory of the method alone is not enough.
        if memories is None or pipeline.remembering:
            memories = Memories(client, pipeline.remembering)
        self.memories = memories

        gossip = pipeline.client.gossip
        if gossip is not None and gossip.aggregator is not None:
            self.aggregator = gossip.aggregator(pipeline, memories, rows)
        elif pipeline.folds:
            self.aggregator = Summing(pipeline, memories, rows)
        else:
            self.aggregator = Stacking(pipeline, memories, rows)
        self.stacks = isinstance(self.aggregator, Stacking)
        self.probing = Probing(pipeline, rows)

        self.recording = Recording(pipeline)

        self.needs_client_loss = "loss" in rule.needs
        self.needs_choice = client.bank is not None and client.bank.choice is not None
        self.needs_probe = self.needs_client_loss or self.needs_choice or client.probe is not None

    def with_optimiser(self, optimiser: ServerStep) -> "Server":
        """Return the server with other optimisers; they share all other compiled programs."""
        # `init` and `update` contain the optimisers, and are compiled anew.
        server = without_programs(self)
        server.optimiser = optimiser
        return server

    @jitted
    def init(self, shared: Shared, present: Any) -> ServerState:
        """Return a new server.

        Args:
          present: mask of the clients that can take part `[N]`.
        """
        of_models = self.new_states(shared, present)
        kept = {part.name: part.init(shared, present) for part in self.kept}
        return jax.tree.map(jnp.asarray, ServerState(shared, {**of_models, **kept}))

    def new_states(self, shared: Shared, present: Any) -> dict[str, Tree]:
        """Return the states of links and optimisers at the start of a run."""
        params = self.pipeline.shared_params(shared)
        moved = self.pipeline.moved_params(shared)
        return {
            **self.pipeline.init(params, present, moved),
            "optimiser": self.optimiser.init(moved),
        }

    @jitted_with(donate=(1,))
    def update(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> ServerUpdate:
        """Return the next server.

        Args:
          received: the round's messages: a `Sum`, or `Messages` that were gathered.
          memory: the clients' memory, which is donated.
          slots: the slots of the last block, of which the context of a summing rule is made.
        """
        update, weight = self.close(received, memory, slots, start)
        for part in self.kept:
            if part.after is not None:
                shared, states = update.server
                report = update.report
                state, shared, info = part.after(states[part.name], shared, weight, start)
                update = update._replace(
                    server=ServerState(shared, {**states, part.name: state}),
                    report=report._replace(
                        finite=report.finite & is_finite(shared["params"]),
                        info={**report.info, **info},
                    ),
                )
        return update

    def close(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> tuple[ServerUpdate, Array]:
        """Return the next server, and Σ of the weights of the updates that moved it.

        In a skipped round, `aux` and the clients' memory may change, if messages arrived (see
        `sections.aux_after`); arguments as of `update`.
        """
        return self.closed(self.aggregator.aggregate(received, memory, slots, start), start)

    def closed(self, aggregated: Aggregated, start: RoundStart) -> tuple[ServerUpdate, Array]:
        """Return `close` of what the messages for ONE model became."""
        closed = close_round(
            self.pipeline,
            self.optimiser,
            start.server,
            aggregated.output,
            aggregated.sections,
            aggregated.counts.usable,
        )
        shared = closed.server.shared
        stats = shared["stats"]
        if start.mixing is not None:
            stats = sections.mixed_stats(start.server.shared["stats"], stats, start.mixing.share)
        aux = self._next_aux(aggregated, closed.skipped, start)

        # What the host reads later.
        report = RoundReport(
            reported=aggregated.counts.reported,
            nonfinite=aggregated.counts.nonfinite,
            usable=aggregated.counts.usable,
            skipped=closed.skipped,
            finite=is_finite(self.pipeline.moved_params(shared)),
            info=without_counts(closed.skipped, aggregated.output.info),
            bytes=aggregated.bytes,
        )
        update = ServerUpdate(
            server=closed.server._replace(shared={**shared, "stats": stats, "aux": aux}),
            memory=aggregated.memory,
            report=report,
            reduced=aggregated.output.reduced,
        )
        return update, closed.weight

    def _next_aux(
        self, aggregated: Aggregated, skipped: Bool[Array, ""], start: RoundStart
    ) -> dict[str, Tree]:
        shared = start.server.shared
        sums = aggregated.sections
        aux = sections.aux_after(sums, shared["aux"], self.client, start.clients)
        reducers = sections.reducers_of(self.client)
        if not reducers:
            return aux

        # The method's own reducers also see the rule's aggregate, and the pace: Σ η_l of a client,
        # averaged over the clients whose messages arrived.
        pace = tree.divide(sums.lr_sum[0], sums.arrived)
        before = {name: aux[name] for name in reducers}
        after = {
            name: reduce(self.task, aux[name], shared, aggregated.output.aggregate, pace)
            for name, reduce in reducers.items()
        }
        unchanged = skipped | (sums.arrived == 0)
        return {**aux, **tree.select(unchanged, before, after)}
