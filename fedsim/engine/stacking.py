"""Rules that must see all rows of a round together: blocks of messages are put beside one another
until the close.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim.engine import sections
from fedsim.engine.jitted import Jitted, jitted_with
from fedsim.engine.memory import CLIENT, Memories, Memory
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.serving import (
    Closed,
    Messages,
    RoundStart,
    TrainStats,
    contexts_of,
    count_rows,
    is_finite,
    placed_bytes,
    received,
    train_stats,
)
from fedsim.engine.slots import Slots
from fedsim.types import Task


class Gathering:
    """Messages of a round until they are all there: one program, whichever rule they are gathered
    for.

    Args:
      rows: of the largest cohort, in whole blocks.
      drop: as of `Pipeline`.
    """

    def __init__(self, rows: int, drop: bool):
        self.rows, self.drop = rows, drop

    def zero(self, messages: Messages) -> Messages:
        """Room for the messages of all blocks."""
        return jax.tree.map(
            lambda leaf: jnp.zeros((self.rows, *leaf.shape[1:]), leaf.dtype), messages
        )

    @jitted_with(donate=(0,))
    def add(
        self, total: Messages | None, messages: Messages, first: Int[Array, ""] | int
    ) -> tuple[Messages, TrainStats]:
        """With the messages of the slots from `first` on -> (messages so far, losses of these)."""
        total = self.zero(messages) if total is None else total
        place = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, first, 0)
        return jax.tree.map(place, total, messages), train_stats(messages, self.drop)


_gathering = functools.lru_cache(64)(Gathering)


class Stacking:
    """How the messages of a cohort become one tree where some link must see all of them at once.

    Args:
      pipeline: of the messages.
      task: of the run.
      memories: of the clients.
      rows: of the largest cohort, in whole blocks.

    Attributes:
      adding: the program behind `add`.
    """

    def __init__(self, pipeline: Pipeline, task: Task, memories: Memories, rows: int):
        self.pipeline, self.task, self.memories, self.rows = pipeline, task, memories, rows
        self.gathering = _gathering(rows, pipeline.drop)
        self.adding: Jitted = self.gathering.add

    def zero(self, messages: Messages, at: RoundStart) -> Messages:
        """As `Gathering.zero`."""
        del at
        return self.gathering.zero(messages)

    def add(
        self,
        total: Messages | None,
        memory: Memory,
        messages: Messages,
        at: RoundStart,
        first: Int[Array, ""] | int,
    ) -> tuple[Messages, Memory, TrainStats]:
        """The messages of the slots from `first` on -> (all so far, memory as it was, losses); none
        before the first block.
        """
        del at
        gathered, stats = self.adding(total, messages, first)
        return gathered, memory, stats

    def close(self, total: Messages, memory: Memory, slots: Slots, at: RoundStart) -> Closed:
        """The end of a round: all messages travel, and the rule reduces what is left of them."""
        del slots  # of the last block: those of all are among the messages
        pipeline, slots, state = self.pipeline, total.slots, at.server.state
        contexts = contexts_of(pipeline, self.task, at, slots)
        travelled, reduced = pipeline.over(received(total), state, contexts)
        arrived, kept = travelled.arrived, travelled.kept
        counts = count_rows(kept, travelled.bad, slots)

        # Clients remember where the message arrived; once the model is not finite, everything stays
        # as it is.
        stages = pipeline.rows_to_keep(travelled, total.remembered, pipeline.skips(counts.usable))
        alive = is_finite(at.server.shared["params"])
        rows = {CLIENT: total.rows.message.memory, **stages}

        none = sections.nothing(kept, pipeline.client)
        return Closed(
            row=reduced.row,
            aggregate=reduced.aggregate,
            state=reduced.state,
            sections=sections.more(
                none, kept, arrived, pipeline.rule.weights(kept), slots.work.lr_sum
            ),
            counts=counts,
            memory=self.memories.keep(memory, slots, rows, arrived.arrived & alive),
            info=reduced.info,
            bytes=placed_bytes(jnp.zeros(self.rows, jnp.int32), arrived, slots, 0),
        )
