"""The programs of a run's server: what it sends, how it aggregates, how it is updated.

A cohort comes block by block. If every stage works on one row and the rule is a sum, each block is
accumulated and discarded (`Summing`). Otherwise the messages are gathered, and the rule sees the
full stack (`Stacking`). After either, all sections of the shared variables are updated together:
`params` by the rule and the optimisers, `stats` by the weights that the rule used, `aux` by the
reducers that the client method declares.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.compose import ServerStep, server_step
from fedsim.engine import sections
from fedsim.engine.deviation import Deviations, Distances
from fedsim.engine.frozen import apart
from fedsim.engine.jitted import jitted, jitted_with, without_programs
from fedsim.engine.memory import Memories, Memory
from fedsim.engine.mixing import NodeMixing
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
from fedsim.types import Codec, Shared, Task


class Server:
    """The programs of one pipeline and of the optimisers behind it; its state is `ServerState`.

    Args:
      pipeline: the chain from the clients' messages to the aggregate.
      task: model and loss.
      broadcast: encodes the parameters that are sent out; None: they are sent as they are.
      memories: memories of the client method alone, shared between servers; ignored if stages
        remember clients too; None: made here.
      deviations: deviations of another pipeline with the same wire; ignored if the wire knows the
        server's stages and rule; None: made here.
      rows: rows of the largest cohort, in full blocks.

    Attributes:
      memories: what the client method and stages remember of every client.
      sender: what the clients receive.
      aggregator: how their messages become one tree.
      stacks: whether it holds all messages of a round together.
      probing: the pass at the global model.
      distances: how far the aggregate lies from honest clients.
      recording: what arrives of the clients, for whoever keeps it.
      needs_client_loss: whether clients send their loss at the global model.
      needs_choice: whether clients choose one of several models before they train.
      needs_probe: whether a round has a pass at the global model before training.
      needs_reference: whether the rule asks for the server's own update.
      needs_server_loss: whether the rule asks for losses on the server's own samples.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        task: Task,
        broadcast: Codec | None = None,
        memories: Memories | None = None,
        deviations: Deviations | None = None,
        *,
        rows: int,
    ):
        rule = pipeline.rule
        client = pipeline.client
        self.pipeline = pipeline
        self.task = task
        self.client = client
        self.sender = Sender(pipeline, broadcast)

        # Without optimisers, the aggregate is the step; `with_optimiser` adds them.
        self.optimiser = server_step()

        # Where stages remember clients too, the memory of the method alone is not enough.
        if memories is None or pipeline.remembering:
            memories = Memories(client, pipeline.remembering)
        self.memories = memories

        if pipeline.client.gossip is not None:
            self.aggregator = NodeMixing(pipeline, task, memories, rows)
        elif pipeline.folds:
            self.aggregator = Summing(pipeline, task, memories, rows)
        else:
            self.aggregator = Stacking(pipeline, task, memories, rows)
        self.stacks = isinstance(self.aggregator, Stacking)
        self.probing = Probing(pipeline, task, rows)

        # A wire with an attack that knows the defence depends on this pipeline's stages and rule.
        if deviations is None or pipeline.aims:
            deviations = Deviations(pipeline, task)
        self.distances = Distances(pipeline, task, deviations)
        self.recording = Recording(pipeline, task)

        self.needs_client_loss = "loss" in rule.needs
        self.needs_choice = client.bank is not None and client.bank.choice is not None
        self.needs_probe = self.needs_client_loss or self.needs_choice or client.probe is not None
        self.needs_reference = "reference" in rule.needs
        self.needs_server_loss = "server_loss" in rule.needs

    def with_optimiser(self, optimiser: ServerStep) -> "Server":
        """Return the server with other optimisers; they share all other compiled programs."""
        # `init` and `update` contain the optimisers, and are compiled anew.
        server = without_programs(self)
        server.optimiser = optimiser
        return server

    @jitted
    def init(self, shared: Shared, present: Any) -> ServerState:
        """Return a new server, as `new_server`."""
        return self.new_server(shared, present)

    @jitted_with(donate=(1,))
    def update(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> ServerUpdate:
        """Return the next server, as `next_server`; the memory is donated."""
        return self.next_server(received, memory, slots, start)

    def new_server(self, shared: Shared, present: Any) -> ServerState:
        """Return a new server, inside of a program.

        Args:
          shared: the variables at the start of the run.
          present: mask of the clients that can take part `[N]`.
        """
        params = self.pipeline.shared_params(shared)
        moved = self.pipeline.moved_params(shared)
        state = {
            **self.pipeline.init(params, present, moved),
            "optimiser": self.optimiser.init(moved),
            **self.sender.init(params),
        }
        return jax.tree.map(jnp.asarray, ServerState(shared, state))

    def next_server(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> ServerUpdate:
        """Return the next server, inside of a program; arguments as of `updated`."""
        return self.updated(received, memory, slots, start)[0]

    def updated(
        self, received: Any, memory: Memory, slots: Slots, start: RoundStart
    ) -> tuple[ServerUpdate, Aggregated]:
        """Return the next server, and the aggregate that it comes from, inside of a program.

        The optimisers make a step of the rule's aggregate.

        In a skipped round, parameters, statistics and the server's state do not change; `aux` and
        the clients' memory may, if messages arrived (see `sections.aux_after`).

        Args:
          received: the round's messages: a `Sum`, or `Messages` that were gathered.
          memory: the clients' memory.
          slots: the slots of the last block, of which the context of a summing rule is made.
          start: the round's start.
        """
        shared = start.server.shared
        aggregated = self.aggregator.aggregate(received, memory, slots, start)

        # The optimisers turn the aggregate into a step on the parameters that clients send, and on
        # frozen ones that the rule moves.
        old = self.pipeline.moved_params(shared)
        step, optimiser_state = self.optimiser.apply(
            aggregated.aggregate, start.server.state["optimiser"], old
        )
        new_state = {**aggregated.state, "optimiser": optimiser_state}

        # With too few messages, or more than a rule over subsets can enumerate, skip the round.
        skipped = self.pipeline.skips(aggregated.counts.usable)
        params, state = tree.select(
            skipped, (old, start.server.state), (tree.add(old, step), new_state)
        )

        # The sections that the rule does not touch.
        aux = self._next_aux(aggregated, skipped, start)
        stats = sections.stats_after(aggregated.sections, shared["stats"], skipped, self.client)
        if start.mixing is not None:
            stats = sections.mixed_stats(shared["stats"], stats, start.mixing.share)

        # What the host reads later.
        report = RoundReport(
            reported=aggregated.counts.reported,
            nonfinite=aggregated.counts.nonfinite,
            usable=aggregated.counts.usable,
            skipped=skipped,
            finite=is_finite(params),
            info=without_counts(skipped, aggregated.info),
            bytes=aggregated.bytes,
        )

        # Parameters that clients do not send keep their values.
        params, merged = apart(params, shared)
        params = tree.fill_leaves(params, shared["params"])
        server = ServerState({"params": params, "stats": stats, "aux": aux, **merged}, state)
        update = ServerUpdate(
            server=server,
            memory=aggregated.memory,
            report=report,
            reduced=aggregated.reduced,
        )
        return update, aggregated

    def _next_aux(
        self, aggregated: Aggregated, skipped: Bool[Array, ""], start: RoundStart
    ) -> dict[str, Tree]:
        """Return the entries of `aux` after the round."""
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
            name: reduce(self.task, aux[name], shared, aggregated.aggregate, pace)
            for name, reduce in reducers.items()
        }
        unchanged = skipped | (sums.arrived == 0)
        return {**aux, **tree.select(unchanged, before, after)}
