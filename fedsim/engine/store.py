"""Where the clients' memory is between rounds: on the device, or in a file if it would not fit.

Both load the rows of a round's cohort as one stacked `Memory`, and save them after it, so that the
programs do not see the difference. A checkpoint stores a dictionary of arrays and, of the file, its
name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedsim import tree
from fedsim.disk.checkpoint import row_bytes, rows_from
from fedsim.disk.rowfile import RowFile
from fedsim.engine.memory import Memories, Memory
from fedsim.types import Shared

SPARE = 1 << 26  # bytes of dead rows that a file may hold before it is rewritten
FILLED_ROWS = 1024  # that are made at a time


class Resident:
    """All rows on the device: those of the clients that ever take part.

    Args:
      members: clients that ever take part.
      capacity: rows of the memory, at least as many as members.
    """

    def __init__(
        self, memories: Memories, initial: Shared, members: np.ndarray, capacity: int, N: int
    ):
        self.members = members
        self.row_of = np.zeros(N, np.int32)  # row of every client
        self.row_of[members] = np.arange(len(members))
        self.memory: Memory = memories.empty(initial, capacity)

    def load(self, ids: np.ndarray) -> tuple[Memory, np.ndarray]:
        """Return the memory for a round of these clients, and the row of each in it."""
        return self.memory, self.row_of[ids]

    def save(self, ids: np.ndarray, memory: Memory) -> None:
        """Save the memory after that round."""
        del ids
        self.memory = memory

    def fill(self, rows: Callable[[np.ndarray], Any]) -> None:
        """Give every member its first row; (ids) -> their rows."""
        filled = rows(self.members)
        stored = jax.tree.map(
            lambda leaf, new: leaf.at[: len(self.members)].set(new), self.memory.rows, filled
        )
        self.memory = Memory(stored, self.memory.seen.at[: len(self.members)].set(True))

    def arrays(self, portable: bool = False) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores.

        Files that the arrays refer to are on the disk when this returns.

        Args:
          portable: refer to no file.
        """
        del portable  # it always is
        if not jax.tree.leaves(self.memory.rows):
            return {}
        seen = np.flatnonzero(np.asarray(self.memory.seen)[: len(self.members)])
        rows = jax.tree.map(lambda leaf: np.asarray(leaf)[seen], self.memory.rows)
        return {"memory.ids": self.members[seen], "memory.rows": row_bytes(rows)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Resume from what `arrays` returned, perhaps for other members: a run may be prolonged."""
        if "memory.ids" not in arrays:
            return
        memory = jax.tree.map(np.array, self.memory)  # a copy that can be written
        target = self.row_of[arrays["memory.ids"]]
        stored = rows_from(np.asarray(arrays["memory.rows"]), tree.row_shapes(memory.rows))

        def write(leaf: np.ndarray, rows: np.ndarray) -> None:
            leaf[target] = rows

        jax.tree.map(write, memory.rows, stored)
        memory.seen[target] = True
        self.memory = jax.device_put(memory)

    def rows(self, ids: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return which of these clients have a row, and the rows `[len(ids), ...]`."""
        index = self.row_of[ids]
        has_row = np.isin(ids, self.members) & np.asarray(self.memory.seen)[index]
        return has_row, jax.tree.map(lambda leaf: np.asarray(leaf)[index], self.memory.rows)

    def files(self) -> list[str]:
        """Return the names of the files that the next checkpoint refers to."""
        return []


class OnDisk:
    """Rows in a file; the device holds those of one round.

    Args:
      capacity: rows of the largest cohort.
    """

    def __init__(self, memories: Memories, initial: Shared, capacity: int, N: int, folder: Path):
        memory = memories.empty(initial, capacity)
        self.capacity = capacity
        self.row_shapes = tree.row_shapes(memory.rows)
        self.file = RowFile(folder, 0, tree.nbytes(self.row_shapes), N)
        self.loaded = np.zeros((0, self.file.size), np.uint8)  # the rows of the round, as bytes

    def load(self, ids: np.ndarray) -> tuple[Memory, np.ndarray]:
        """Return the memory for a round of these clients, as `Resident.load`."""
        K = len(ids)
        seen = np.zeros(self.capacity, bool)
        seen[:K] = self.file.offset[ids] >= 0
        raw = np.zeros((self.capacity, self.file.size), np.uint8)
        raw[:K] = self.file.read(ids)
        self.loaded = raw

        rows, seen = jax.device_put((rows_from(raw, self.row_shapes), seen))
        return Memory(rows, seen), np.arange(K, dtype=np.int32)

    def save(self, ids: np.ndarray, memory: Memory) -> None:
        """Append the rows that the round changed."""
        K = len(ids)
        rows = row_bytes(jax.tree.map(lambda leaf: np.asarray(leaf)[:K], memory.rows))
        is_new = self.file.offset[ids] < 0
        changed = (rows != self.loaded[:K]).any(axis=1) | is_new
        saved = np.asarray(memory.seen)[:K] & changed
        self.file.append(ids[saved], rows[saved])

    def fill(self, rows: Callable[[np.ndarray], Any]) -> None:
        """Give every client its first row, as `Resident.fill`."""
        N = len(self.file.offset)
        for first in range(0, N, FILLED_ROWS):
            ids = np.arange(first, min(first + FILLED_ROWS, N))
            self.file.append(ids, row_bytes(jax.tree.map(np.asarray, rows(ids))))

    def arrays(self, portable: bool = False) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores, as `Resident.arrays`."""
        if portable:
            ids = np.flatnonzero(self.file.offset >= 0)
            return {"memory.ids": ids, "memory.rows": self.file.read(ids)}

        if self.file.needs_compaction(SPARE):
            self.file = self.file.compacted()
        self.file.sync()
        ids = np.flatnonzero(self.file.offset >= 0)
        file = np.array([self.file.generation, self.file.length], np.int64)
        return {"memory.file": file, "memory.ids": ids, "memory.offsets": self.file.offset[ids]}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        if "memory.rows" in arrays:  # of a run whose memory still fitted on the device
            self.file.append(arrays["memory.ids"], arrays["memory.rows"])
            return

        generation, length = map(int, arrays["memory.file"])
        self.file.close()
        self.file = RowFile(self.file.folder, generation, self.file.size, len(self.file.offset))
        self.file.length = length
        self.file.offset[arrays["memory.ids"]] = arrays["memory.offsets"]
        self.file.open()

    def rows(self, ids: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return which of these clients have a row, and the rows, as `Resident.rows`."""
        return self.file.offset[ids] >= 0, rows_from(self.file.read(ids), self.row_shapes)

    def files(self) -> list[str]:
        return [self.file.name]


Store = Resident | OnDisk
