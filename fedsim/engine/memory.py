"""Client memory: one stacked PyTree, whose rows change only where the client's message arrived.

A run knows from its plans which clients ever take part. They have a row each; the others need no
storage. A row begins as the shared variables of the run's start make it, when its client first
takes part.
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
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import Client, RowStage, Shared, Stage

CLIENT = "client"  # owner of the row that the client method remembers


class Memory(NamedTuple):
    """Stored rows, and which of them hold something."""

    rows: Tree  # [M, ...]
    seen: Bool[Array, " M"]  # False: the client has not taken part yet


class Memories:
    """How client memory is made, read and written; a method without memory costs nothing.

    A client's row is a dictionary by owner: `client` is what its method remembers, the others are
    stages. In all methods, `initial` are the shared variables at the start of the run, and `root`
    is the key of all its randomness.

    Args:
      stages: stages that remember something of every client, by name.
    """

    def __init__(self, client: Client, stages: Mapping[str, Stage | RowStage] | None = None):
        self.client = client
        self.stages = dict(stages or {})

    @jitted_with(static=(1,))
    def empty(self, initial: Shared, capacity: int) -> Memory:
        """Return a memory for `capacity` clients, none of which has taken part yet."""
        row = jax.eval_shape(self._row, initial, jax.random.key(0), 0)
        rows = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), row)
        return Memory(rows, jnp.zeros(capacity, bool))

    @jitted
    def fresh(self, initial: Shared, root: Key[Array, ""], ids: Any) -> Tree:
        """Return the first rows of clients `[K, ...]`: the same whenever they are made."""
        key = round_key(root, 0, Phase.MEMORY)
        return jax.vmap(self._row, in_axes=(None, None, 0))(initial, key, ids)

    @jitted
    def gather(self, memory: Memory, initial: Shared, slots: Slots, root: Key[Array, ""]) -> Tree:
        """Return the rows of a block's clients `[block, ...]`."""
        fresh = self.fresh(initial, root, slots.work.id)
        seen = memory.seen[slots.memory_row]
        rows = tree.select(seen, tree.take(memory.rows, slots.memory_row), fresh)
        if self.client.travel.sends is None:
            return rows
        return {**rows, CLIENT: self._with_sent(memory, slots, rows[CLIENT], root)}

    def _with_sent(self, memory: Memory, slots: Slots, rows: Tree, root: Key[Array, ""]) -> Tree:
        """Return the rows of a block's clients, each with what the server sends the client."""
        send = self.client.travel.sends
        assert send is not None

        def of_client(slot):
            number, row, round, id = slot
            key = jax.random.fold_in(round_key(root, round, Phase.SENT), id)
            return send(memory.rows[CLIENT], memory.seen, number, row, key)

        sent = jax.lax.map(of_client, (slots.memory_row, rows, slots.draw, slots.work.id))
        return {"own": rows, "sent": sent}

    def save(
        self, memory: Memory, slots: Slots, rows: Tree, arrived: Bool[Array, " rows"]
    ) -> Memory:
        """Return the memory with new rows for the clients whose message arrived.

        Args:
          rows: their new rows `[rows, ...]`.
          arrived: whose message arrived `[rows]`.
        """
        if not jax.tree.leaves(rows):
            return memory

        # An index beyond the last row writes nothing.
        target = jnp.where(arrived, slots.memory_row, memory.seen.shape[0])
        return Memory(
            rows=tree.put(memory.rows, target, rows),
            seen=memory.seen.at[target].set(True, mode="drop"),
        )

    def _row(self, initial: Shared, key: Key[Array, ""], id: Int[Array, ""]) -> Tree:
        """Return the first row of ONE client."""
        key = jax.random.fold_in(key, id)
        stage_keys = {name: jax.random.fold_in(key, tag_of(name)) for name in self.stages}
        params = shared_leaves(self.client, initial["params"])
        rows = {name: stage.memory(params, stage_keys[name]) for name, stage in self.stages.items()}
        return {CLIENT: self.client.memory(initial, key), **rows}
