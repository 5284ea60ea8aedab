"""A file of fixed-size rows by client that only grows: rows are never changed in place."""

import os
import weakref
import zlib
from pathlib import Path

import numpy as np

from fedsim.errors import CheckpointError, CorruptError

HEAD = 8  # bytes before a row: its CRC-32, and padding
CRC_BYTES = 4
CHUNK_ROWS = 4096  # that are copied at a time


class RowFile:
    """Rows that are appended to a file; the offsets of each client's newest row are in memory.

    A commit names a length of the file. Up to there, the file is as it was at that commit; anything
    beyond was never committed and is cut off when the file is opened.

    Args:
      generation: the number of the file; a compacted file has the next one.
      size: bytes of a row.

    Attributes:
      offset: where every client's newest row starts `[N]`; −1: there is none.
      length: bytes in use.
      file: the descriptor of the file; None while it is closed.
    """

    def __init__(self, folder: Path, generation: int, size: int, N: int):
        self.folder = folder
        self.generation = generation
        self.size = size
        self.name = f"memory-{generation}.rows"
        self.offset = np.full(N, -1, np.int64)
        self.length = 0
        self.file: int | None = None

    def open(self) -> int:
        """Return the file's descriptor; the file is opened at first use.

        Raises:
          CorruptError: when the file is shorter than it was.
        """
        if self.file is None:
            path = self.folder / self.name
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self.file = os.open(path, flags, 0o666)
            self.closing = weakref.finalize(self, os.close, self.file)
            size = os.fstat(self.file).st_size
            if size < self.length:
                raise CorruptError(f"{path}: is shorter than the {self.length} bytes it had")
            if size > self.length:
                os.ftruncate(self.file, self.length)
        return self.file

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file = None
            self.closing()

    def sync(self) -> None:
        """Wait until all rows are on the disk."""
        os.fsync(self.open())

    def needs_compaction(self, spare: int) -> bool:
        """Return whether replaced rows take more than half of the file, and more than `spare`.

        Args:
          spare: bytes that replaced rows may always take.
        """
        current_bytes = int((self.offset >= 0).sum()) * (HEAD + self.size)
        return self.length > 2 * current_bytes + spare

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows of clients as bytes `[len(ids), size]`; zeros where there is none.

        Raises:
          CheckpointError: when a row is damaged.
        """
        rows = np.zeros((len(ids), self.size), np.uint8)
        for k in np.flatnonzero(self.offset[ids] >= 0):
            client = int(ids[k])
            offset = int(self.offset[client])
            stored = os.pread(self.open(), HEAD + self.size, offset)
            crc = int.from_bytes(stored[:CRC_BYTES], "little")
            is_complete = len(stored) == HEAD + self.size
            if not is_complete or crc != _crc(client, offset, stored[HEAD:]):
                path = self.folder / self.name
                raise CheckpointError(f"{path}: the row of client {client} is damaged")
            rows[k] = np.frombuffer(stored, np.uint8, self.size, HEAD)
        return rows

    def append(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Append new rows of clients, as bytes `[len(ids), size]`."""
        if not len(ids):
            return
        offsets = self.length + (HEAD + self.size) * np.arange(len(ids))
        crcs = []
        for client, offset, row in zip(ids, offsets, rows, strict=True):
            crcs.append(_crc(int(client), int(offset), row.tobytes()))

        stored = np.zeros((len(ids), HEAD + self.size), np.uint8)
        stored[:, :CRC_BYTES] = np.array(crcs, "<u4").view(np.uint8).reshape(-1, CRC_BYTES)
        stored[:, HEAD:] = rows
        _write_all(self.open(), stored.tobytes(), self.length)
        self.length += stored.size
        self.offset[ids] = offsets

    def compacted(self) -> "RowFile":
        """Return a new file, with the next number, that holds only the newest rows.

        This file stays, for the commits that name it.
        """
        compacted = RowFile(self.folder, self.generation + 1, self.size, len(self.offset))
        ids = np.flatnonzero(self.offset >= 0)
        for first in range(0, len(ids), CHUNK_ROWS):
            chunk = ids[first : first + CHUNK_ROWS]
            compacted.append(chunk, self.read(chunk))
        self.close()
        return compacted


def _write_all(file: int, data: bytes, offset: int) -> None:
    """Write all data at an offset, however little the system accepts at a time."""
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(file, remaining, offset)
        remaining = remaining[written:]
        offset += written


def _crc(id: int, offset: int, row: bytes) -> int:
    """CRC-32 of a row with its client and offset, so that a row that was moved does not match."""
    return zlib.crc32(row, zlib.crc32(f"{id} {offset}".encode()))
