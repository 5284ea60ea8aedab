"""Where the clients' memory lives between rounds: on the device, or in a file when it would not fit.

Both lend the rows of a round's cohort to the program as one stacked `Memory`, and take them back after it, so the program
knows nothing of it. What a commit needs of them is a dictionary of arrays (and, for the file, its name).
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedsim import tree
from fedsim.disk.checkpoint import row_bytes, rows_from
from fedsim.disk.rowfile import RowFile
from fedsim.engine.memory import Memories, Memory
from fedsim.types import Shared

SPARE = 1 << 26  # bytes of dead rows that a file may hold before it is written anew


class Resident:
    """All rows on the device, by place: those of the clients that ever take part."""

    def __init__(self, memories: Memories, start: Shared, members: np.ndarray, room: int, N: int):
        self.members = members
        self.place = np.zeros(N, np.int32)
        self.place[members] = np.arange(len(members))
        self.memory: Memory = memories.empty(start, room)

    def lend(self, ids: np.ndarray) -> tuple[Memory, np.ndarray]:
        """The memory for a round of these clients, and the place in it of each."""
        return self.memory, self.place[ids]

    def keep(self, ids: np.ndarray, memory: Memory) -> None:
        """The memory as it is after that round."""
        self.memory = memory

    def arrays(self, portable: bool = False) -> dict[str, np.ndarray]:
        """What a commit holds of it; what it refers to outside of these is on the disk when this returns.

        Args:
          portable: refer to nothing.
        """
        del portable  # it always is
        if not jax.tree.leaves(self.memory.rows):
            return {}
        seen = np.flatnonzero(np.asarray(self.memory.seen)[: len(self.members)])
        rows = row_bytes(jax.tree.map(lambda leaf: np.asarray(leaf)[seen], self.memory.rows))
        return {"memory.ids": self.members[seen], "memory.rows": rows}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` gave."""
        if "memory.ids" in arrays:  # of other members perhaps, when rounds were added
            place = self.place[arrays["memory.ids"]]
            whole = jax.tree.map(np.array, self.memory)
            new = rows_from(np.asarray(arrays["memory.rows"]), _row(whole.rows))
            jax.tree.map(lambda leaf, rows: leaf.__setitem__(place, rows), whole.rows, new)
            whole.seen[place] = True
            self.memory = jax.device_put(whole)

    def rows(self, ids: np.ndarray) -> tuple[np.ndarray, Any]:
        """Which of these clients have a row, and the rows `[len(ids), ...]`."""
        place = self.place[ids]
        known = np.isin(ids, self.members) & np.asarray(self.memory.seen)[place]
        return known, jax.tree.map(lambda leaf: np.asarray(leaf)[place], self.memory.rows)

    def files(self) -> list[str]:
        """Names of files that the next commit refers to."""
        return []


class OnDisk:
    """Rows in a file; the device holds those of one round."""

    def __init__(self, memories: Memories, start: Shared, room: int, N: int, folder: Path):
        lent = memories.empty(start, room)
        self.room, self.like = room, _row(lent.rows)
        self.file = RowFile(folder, 0, row_size(lent), N)

    def lend(self, ids: np.ndarray) -> tuple[Memory, np.ndarray]:
        """As `Resident.lend`."""
        seen, raw = np.zeros(self.room, bool), np.zeros((self.room, self.file.size), np.uint8)
        seen[: len(ids)] = self.file.offset[ids] >= 0
        raw[: len(ids)] = self.file.read(ids)
        self.lent = raw
        return Memory(*jax.device_put((rows_from(raw, self.like), seen))), np.arange(
            len(ids), dtype=np.int32
        )

    def keep(self, ids: np.ndarray, memory: Memory) -> None:
        """As `Resident.keep`."""
        cohort = slice(0, len(ids))
        rows = row_bytes(jax.tree.map(lambda leaf: np.asarray(leaf)[cohort], memory.rows))
        changed = (rows != self.lent[cohort]).any(1) | (self.file.offset[ids] < 0)
        new = np.asarray(memory.seen)[cohort] & changed
        self.file.append(ids[new], rows[new])

    def arrays(self, portable: bool = False) -> dict[str, np.ndarray]:
        """As `Resident.arrays`."""
        if portable:
            ids = np.flatnonzero(self.file.offset >= 0)
            return {"memory.ids": ids, "memory.rows": self.file.read(ids)}
        if self.file.wasteful(SPARE):
            self.file = self.file.written_anew()
        self.file.sync()
        ids = np.flatnonzero(self.file.offset >= 0)
        where = np.array([self.file.generation, self.file.length], np.int64)
        return {"memory.file": where, "memory.ids": ids, "memory.offsets": self.file.offset[ids]}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """As `Resident.restore`."""
        if "memory.rows" in arrays:  # of a run whose memory still fitted
            self.file.append(arrays["memory.ids"], arrays["memory.rows"])
            return
        generation, length = map(int, arrays["memory.file"])
        self.file.close()
        self.file = RowFile(self.file.folder, generation, self.file.size, len(self.file.offset))
        self.file.length = length
        self.file.offset[arrays["memory.ids"]] = arrays["memory.offsets"]
        self.file.open()

    def rows(self, ids: np.ndarray) -> tuple[np.ndarray, Any]:
        """As `Resident.rows`."""
        return self.file.offset[ids] >= 0, rows_from(self.file.read(ids), self.like)

    def files(self) -> list[str]:
        """As `Resident.files`."""
        return [self.file.name]


Store = Resident | OnDisk


def row_size(memory: Memory) -> int:
    """Bytes of one client's row."""
    return sum(int(leaf.nbytes) // leaf.shape[0] for leaf in jax.tree.leaves(memory.rows))


def _row(rows: tree.Tree) -> tree.Tree:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), rows)
