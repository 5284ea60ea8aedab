"""Rules that must see all rows of a round: messages are gathered until the last block is there."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim.engine.close import sums_of
from fedsim.engine.jitted import Jitted, jitted_with
from fedsim.engine.memory import CLIENT, Memories, Memory
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server_records import (
    Aggregated,
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


class Gathering:
    """Gathers the messages of a round: one program, whichever rule they are gathered for.

    Args:
      rows: rows of the largest cohort, in full blocks.
      drops_nonfinite: whether messages that are not finite will be dropped.
    """

    def __init__(self, rows: int, drops_nonfinite: bool):
        self.rows = rows
        self.drops_nonfinite = drops_nonfinite

    def zero(self, messages: Messages) -> Messages:
        """Return an empty stack for all blocks `[block, ...] -> [rows, ...]`."""

        def empty(leaf):
            return jnp.zeros((self.rows, *leaf.shape[1:]), leaf.dtype)

        return jax.tree.map(empty, messages)

    @jitted_with(donate=(0,))
    def add(
        self, gathered: Messages | None, messages: Messages, first_slot: Int[Array, ""] | int
    ) -> tuple[Messages, TrainStats]:
        """Add the messages of a block.

        Args:
          gathered: the messages of the blocks before; None: this is the first.

        Returns:
          The messages so far, and the losses of these clients.
        """
        if gathered is None:
            gathered = self.zero(messages)

        def write(stack, block):
            return jax.lax.dynamic_update_slice_in_dim(stack, block, first_slot, 0)

        stack: Messages = jax.tree.map(write, gathered, messages)
        return stack, train_stats(messages, self.drops_nonfinite)


_gathering = functools.lru_cache(64)(Gathering)


class Stacking:
    """Makes one tree of a cohort's messages where some link must see all of them at once.

    Args:
      rows: rows of the largest cohort, in full blocks.
    """

    def __init__(self, pipeline: Pipeline, memories: Memories, rows: int):
        self.pipeline = pipeline
        self.memories = memories
        self.rows = rows
        self.gathering = _gathering(rows, pipeline.drops_nonfinite)
        self.add_program: Jitted = self.gathering.add

    def zero(self, messages: Messages, start: RoundStart) -> Messages:
        """Return an empty stack, as `Gathering.zero`."""
        del start
        return self.gathering.zero(messages)

    def add(
        self,
        gathered: Messages | None,
        memory: Memory,
        messages: Messages,
        start: RoundStart,
        first_slot: Int[Array, ""] | int,
    ) -> tuple[Messages, Memory, TrainStats]:
        """Add the messages of a block, as `Summing.add`; the memory does not change yet."""
        del start
        stack, stats = self.add_program(gathered, messages, first_slot)
        return stack, memory, stats

    def aggregate(
        self, gathered: Messages, memory: Memory, slots: Slots, start: RoundStart
    ) -> Aggregated:
        """Pass all messages of a round through the pipeline.

        Args:
          slots: not used: the slots of all clients are with the messages.
        """
        del slots
        pipeline = self.pipeline
        slots = gathered.slots
        contexts = contexts_of(pipeline, start, slots)
        processed, output = pipeline.apply(sent_updates(gathered), start.server.state, contexts)
        arrived = processed.arrived
        counts = count_rows(processed.staged, processed.nonfinite, slots)

        # Clients remember the round if their message arrived. Once the model is not finite, nothing
        # changes any more.
        skipped = pipeline.skips(counts.usable)
        of_stages = pipeline.memory_after(processed, gathered.remembered, skipped)
        alive = is_finite(start.server.shared["params"])
        rows = {CLIENT: gathered.rows.message.memory, **of_stages}

        return Aggregated(
            output=output,
            sections=sums_of(pipeline, processed, lr_sum=slots.work.lr_sum),
            counts=counts,
            memory=self.memories.save(memory, slots, rows, arrived.arrived & alive),
            bytes=with_bytes(
                jnp.zeros(self.rows, jnp.int32),
                arrived,
                slots,
                first_slot=0,
                left_out=left_out_bytes(pipeline, start.server.shared, slots),
            ),
        )
