"""Client memory: one stacked PyTree, gathered and scattered by place, kept only where the message
arrived.

A run knows from its plans who ever takes part; those clients have a place `0 … M − 1`, the others
need no storage. Every row starts as the shared variables of the run's start make it; it is made
when its client first takes part.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from fedsim import tree
from fedsim.compose import tag_of
from fedsim.engine.jitted import jitted, jitted_with
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.shared_leaves import travelling
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Client, RowStage, Shared, Stage

CLIENT = "client"  # whose row is that of the client method


class Memory(NamedTuple):
    """Rows by place, and which of them hold something."""

    rows: Tree  # [M, ...]
    seen: Bool[Array, " M"]


class Memories:
    """How memory is made, read and written; who remembers nothing costs nothing.

    A client's row is a dictionary by owner: `client` is what its method remembers, the others are
    stages. In all methods, `start` are the shared variables of the run's start, and `root` the key
    of all its randomness.

    Args:
      client: the method.
      stages: those that remember something of every client, by name.
    """

    def __init__(self, client: Client, stages: Mapping[str, Stage | RowStage] | None = None):
        self.client, self.stages = client, dict(stages or {})

    @jitted_with(static=(1,))
    def empty(self, start: Shared, places: int) -> Memory:
        """Room for the rows of so many clients, none of which has one yet."""
        row = jax.eval_shape(self._row, start, jax.random.key(0), 0)
        return Memory(
            jax.tree.map(lambda leaf: jnp.zeros((places, *leaf.shape), leaf.dtype), row),
            jnp.zeros(places, bool),
        )

    @jitted
    def fresh(self, start: Shared, root: Key[Array, ""], ids: Any) -> Tree:
        """Rows as they start `[K, ...]`: the same whenever they are made."""
        return jax.vmap(self._row, in_axes=(None, None, 0))(
            start, round_key(root, 0, Phase.MEMORY), ids
        )

    @jitted
    def gather(self, memory: Memory, start: Shared, slots: Slots, root: Key[Array, ""]) -> Tree:
        """The rows of a block's clients `[block, ...]`."""
        new = self.fresh(start, root, slots.work.id)
        return tree.select(memory.seen[slots.place], tree.take(memory.rows, slots.place), new)

    def keep(
        self, memory: Memory, slots: Slots, rows: Tree, arrived: Bool[Array, " rows"]
    ) -> Memory:
        """The memory with the rows `[rows, ...]` of those clients whose message arrived."""
        if not jax.tree.leaves(rows):
            return memory
        # beyond the last row: not written
        place = jnp.where(arrived, slots.place, memory.seen.shape[0])
        return Memory(
            tree.put(memory.rows, place, rows), memory.seen.at[place].set(True, mode="drop")
        )

    def _row(self, start: Shared, key: Key[Array, ""], id: Int[Array, ""]) -> Tree:
        """A new row of ONE client."""
        key = jax.random.fold_in(key, id)
        tags = {name: jax.random.fold_in(key, tag_of(name)) for name in self.stages}
        params = travelling(self.client, start["params"])
        rows = {name: stage.memory(params, tags[name]) for name, stage in self.stages.items()}
        return {CLIENT: self.client.memory(start, key), **rows}
