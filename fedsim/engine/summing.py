"""Rules that are sums: each block of messages is added and forgotten, however many there are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim.compose import add_reports, no_reports
from fedsim.engine import sections
from fedsim.engine.jitted import Jitted, jitted_with
from fedsim.engine.keys import Phase
from fedsim.engine.memory import CLIENT, Memories, Memory
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.serving import (
    Closed,
    Counts,
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
from fedsim.tree import Tree
from fedsim.types import Fold, Info, Task


class Sum(NamedTuple):
    """Over the blocks of a round so far."""

    rule: Tree
    sections: sections.Sections
    counts: Counts
    info: Info  # of wire and stages by their place, sums over the rows so far
    bytes: Int[Array, " rows"]  # of what every slot sent


class Summing:
    """How the messages of a cohort become one tree where no link must see all of them at once.

    Args:
      pipeline: of the messages; its rule has a `fold`.
      task: of the run.
      memories: of the clients.
      rows: of the largest cohort, in whole blocks.

    Attributes:
      adding: the program behind `add`.
    """

    def __init__(self, pipeline: Pipeline, task: Task, memories: Memories, rows: int):
        assert pipeline.rule.fold is not None
        self.pipeline, self.task, self.memories, self.rows = pipeline, task, memories, rows
        self.fold: Fold = pipeline.rule.fold
        self.adding: Jitted = self.add

    def zero(self, messages: Messages, at: RoundStart) -> Sum:
        """The sum over no rows; of the messages the shapes count."""
        updates, state = received(messages), at.server.state
        contexts = contexts_of(self.pipeline, self.task, at, messages.slots)
        through = lambda updates: self.pipeline.through(updates, state, contexts)
        travelled = jax.eval_shape(through, updates)
        zeros = lambda leaf: jnp.zeros(leaf.shape, leaf.dtype)
        return Sum(
            rule=self.fold.zero(jax.tree.map(zeros, travelled.kept)),
            sections=sections.nothing(updates, self.pipeline.client),
            counts=Counts(*[jnp.zeros((), jnp.int32)] * 3),
            info=no_reports(travelled.info),
            bytes=jnp.zeros(self.rows, jnp.int32),
        )

    @jitted_with(donate=(0, 1))
    def add(
        self,
        total: Sum | None,
        memory: Memory,
        messages: Messages,
        at: RoundStart,
        first: Int[Array, ""] | int,
    ) -> tuple[Sum, Memory, TrainStats]:
        """The messages of the slots from `first` on -> (sum, memory behind them, losses); no sum
        before the first block.
        """
        pipeline, slots = self.pipeline, messages.slots
        stats = train_stats(messages, pipeline.drop)
        if total is None:  # behind a barrier: 0 + x is added as in later blocks, and -0 becomes 0
            so_far: Sum = jax.lax.optimization_barrier(self.zero(messages, at))
        else:
            so_far = total
        contexts = contexts_of(pipeline, self.task, at, slots)
        travelled = pipeline.through(received(messages), at.server.state, contexts)
        arrived, kept = travelled.arrived, travelled.kept

        # Clients remember where the message arrived; once the model is not finite, everything stays
        # as it is.
        rows = {
            CLIENT: messages.rows.message.memory,
            **pipeline.rows_to_keep(travelled, messages.remembered),
        }
        alive = is_finite(at.server.shared["params"])
        memory = self.memories.keep(memory, slots, rows, arrived.arrived & alive)

        weights = pipeline.rule.weights(kept)
        total = Sum(
            rule=self.fold.add(so_far.rule, kept, contexts(Phase.RULE)),
            sections=sections.more(so_far.sections, kept, arrived, weights, slots.work.lr_sum),
            counts=jax.tree.map(jnp.add, so_far.counts, count_rows(kept, travelled.bad, slots)),
            info=add_reports(so_far.info, travelled.info),
            bytes=placed_bytes(so_far.bytes, arrived, slots, first),
        )
        return total, memory, stats

    def close(self, total: Sum, memory: Memory, slots: Slots, at: RoundStart) -> Closed:
        """The end of a round, whose last block had these slots."""
        state, contexts = at.server.state, contexts_of(self.pipeline, self.task, at, slots)
        finish = lambda state, context: self.fold.finish(total.rule, state, context)
        reduced = self.pipeline.reduced(finish, state, state, total.info, contexts)
        return Closed(
            row=None,
            aggregate=reduced.aggregate,
            state=reduced.state,
            sections=total.sections,
            counts=total.counts,
            memory=memory,
            info=reduced.info,
            bytes=total.bytes,
        )
