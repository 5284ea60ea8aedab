"""Client memory: one stacked PyTree, gathered and scattered by place, kept only where the message arrived.

A run knows from its plans who ever takes part; those clients have a place `0 … M − 1`, the others need no storage. Every row
starts as the shared variables of the run's start make it; it is made when its client first takes part.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.pack import Jobs
from fedsim.tree import Tree
from fedsim.types import Client


class Memory(NamedTuple):
    """Rows by place, and which of them hold something."""

    rows: Tree  # [M, ...]
    seen: Bool[Array, " M"]


class Memories(NamedTuple):
    """How a method's memory is made, read and written."""

    empty: Callable  # (bank, M) -> Memory
    fresh: Callable  # (start, root, ids) -> rows as they start; `start`: shared variables of the run's start, as a bank
    gather: Callable  # (memory, start, jobs, root) -> rows [block, ...]
    scatter: Callable  # (memory, jobs, rows [block, ...], arrived [block]) -> Memory


def memories(client: Client) -> Memories:
    """The memory of a client method; a method without one costs nothing."""

    def first(bank, key, id) -> Tree:
        """A new row of ONE client: the same whenever it is made."""
        return client.memory(tree.take(bank, 0), jax.random.fold_in(key, id))

    @partial(jax.jit, static_argnums=1)
    def empty(bank, M: int) -> Memory:
        row = jax.eval_shape(first, bank, jax.random.key(0), 0)
        return Memory(jax.tree.map(lambda a: jnp.zeros((M, *a.shape), a.dtype), row), jnp.zeros(M, bool))

    def fresh(start, root, ids) -> Tree:
        return jax.vmap(first, in_axes=(None, None, 0))(start, round_key(root, 0, Phase.MEMORY), ids)

    @jax.jit
    def gather(memory: Memory, start, jobs: Jobs, root) -> Tree:
        new = fresh(start, root, jobs.id)
        return tree.select(memory.seen[jobs.place], tree.take(memory.rows, jobs.place), new)

    def scatter(memory: Memory, jobs: Jobs, rows: Tree, arrived) -> Memory:
        place = jnp.where(arrived, jobs.place, memory.seen.shape[0])  # beyond the last row: not written
        return Memory(tree.put(memory.rows, place, rows), memory.seen.at[place].set(True, mode="drop"))

    return Memories(empty, jax.jit(fresh), gather, scatter)
