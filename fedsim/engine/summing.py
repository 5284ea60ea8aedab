"""Rules that are sums: each block of messages is added and forgotten, however many there are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from fedsim.compose import add_reports, in_parts, no_reports
from fedsim.engine import sections
from fedsim.engine.jitted import Jitted, jitted_with
from fedsim.engine.keys import Phase
from fedsim.engine.memory import CLIENT, Memories, Memory
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server_records import (
    Aggregated,
    Counts,
    Messages,
    RoundStart,
    TrainStats,
    contexts_of,
    count_rows,
    is_finite,
    left_out_bytes,
    sent_updates,
    train_stats,
    with_bytes,
)
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Fold, Info


class Sum(NamedTuple):
    """The sum over the blocks of a round so far."""

    rule: Tree
    sections: sections.SectionSums
    counts: Counts
    info: Info  # reports of wire and stages by their position, summed over the rows
    bytes: Int[Array, " rows"]  # of every slot's message


class Summing:
    """Makes one tree of a cohort's messages where no link must see all of them at once.

    Args:
      pipeline: the pipeline that the messages pass; its rule has a `fold`.
      rows: rows of the largest cohort, in full blocks.
    """

    def __init__(self, pipeline: Pipeline, memories: Memories, rows: int):
        assert pipeline.reducing.fold is not None
        self.pipeline = pipeline
        self.memories = memories
        self.rows = rows
        self.fold: Fold = pipeline.reducing.fold
        self.add_program: Jitted = self.add

    def zero(self, messages: Messages, start: RoundStart) -> Sum:
        """Return the sum over no rows; only the shapes of `messages` count."""
        updates = sent_updates(messages)
        state = start.server.state
        contexts = contexts_of(self.pipeline, start, messages.slots)
        process = lambda updates: self.pipeline.process(updates, state, contexts)
        processed = jax.eval_shape(process, updates)
        no_rows = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), processed.staged)
        rule = self.fold.zero(no_rows)
        section_sums = sections.zero(updates, self.pipeline.client)
        nobody = jnp.zeros((), jnp.int32)
        return Sum(
            rule=rule,
            sections=section_sums,
            counts=Counts(usable=nobody, nonfinite=nobody, reported=nobody),
            info=no_reports(processed.info),
            bytes=jnp.zeros(self.rows, jnp.int32),
        )

    @jitted_with(donate=(0, 1))
    def add(
        self,
        total: Sum | None,
        memory: Memory,
        messages: Messages,
        start: RoundStart,
        first_slot: Int[Array, ""] | int,
    ) -> tuple[Sum, Memory, TrainStats]:
        """Add the messages of a block.

        What links make of a message stays in the processor's cache until it is added: a part of
        the block with a message per lane is added before the next part passes the links.

        Args:
          total: the sum over the blocks before; None: this is the first.

        Returns:
          The sum, the memory after these messages, and the clients' losses.
        """
        so_far = total
        if so_far is None:
            # Behind a barrier, 0 + x is added as in later blocks, and −0 becomes 0.
            so_far = jax.lax.optimization_barrier(self.zero(messages, start))

        # Once the model is not finite, nothing changes any more.
        alive = is_finite(start.server.shared["params"])

        def add_part(carry, part):
            so_far, memory = carry
            messages, slots = part
            so_far, memory, stats = self._with_part(
                so_far, memory, messages, start, first_slot=slots[0], alive=alive
            )
            return (so_far, memory), stats

        block = len(messages.slots.weight)
        numbered = (messages, first_slot + jnp.arange(block))
        parts = self.pipeline.parts(block)
        (so_far, memory), stats = in_parts(add_part, (so_far, memory), numbered, parts)
        return so_far, memory, stats

    def _with_part(
        self,
        total: Sum,
        memory: Memory,
        messages: Messages,
        start: RoundStart,
        first_slot: Int[Array, ""],
        alive: Bool[Array, ""],
    ) -> tuple[Sum, Memory, TrainStats]:
        """Return `add` with a part of a block; `alive`: whether clients remember the round."""
        pipeline = self.pipeline
        slots = messages.slots
        stats = train_stats(messages, pipeline.drops_nonfinite)
        contexts = contexts_of(pipeline, start, slots)
        processed = pipeline.process(sent_updates(messages), start.server.state, contexts)

        arrived = processed.arrived
        staged = processed.staged
        if pipeline.has_links:
            # The barrier rounds rows as they arrive: they are not fused into their sum.
            staged = staged._replace(delta=jax.lax.optimization_barrier(staged.delta))

        # Clients remember the round if their message arrived.
        rows = {
            CLIENT: messages.rows.message.memory,
            **pipeline.memory_after(processed, messages.remembered),
        }
        memory = self.memories.save(memory, slots, rows, arrived.arrived & alive)

        counts = count_rows(processed.staged, processed.nonfinite, slots)
        weights = pipeline.rule.weights(staged)
        rule_context = contexts(Phase.RULE)._replace(state=start.server.state["rule"])
        total = Sum(
            rule=self.fold.add(total.rule, staged, rule_context),
            sections=sections.add_rows(
                total.sections, staged, arrived, weights=weights, lr_sum=slots.work.lr_sum
            ),
            counts=jax.tree.map(jnp.add, total.counts, counts),
            info=add_reports(total.info, processed.info),
            bytes=with_bytes(
                total.bytes,
                arrived,
                slots,
                first_slot,
                left_out=left_out_bytes(pipeline, start.server.shared, slots),
            ),
        )
        return total, memory, stats

    def aggregate(self, total: Sum, memory: Memory, slots: Slots, start: RoundStart) -> Aggregated:
        """Apply the rule to the sum over a round.

        Args:
          memory: the clients' memory after the round.
          slots: the slots of the last block.
        """
        state = start.server.state
        contexts = contexts_of(self.pipeline, start, slots)
        apply_rule = lambda state, context: self.fold.finish(total.rule, state, context)
        output = self.pipeline.reduce(
            apply_rule, state, row_state=state, info=total.info, contexts=contexts
        )
        return Aggregated(
            output=output._replace(reduced=None),
            sections=total.sections,
            counts=total.counts,
            memory=memory,
            bytes=total.bytes,
        )
