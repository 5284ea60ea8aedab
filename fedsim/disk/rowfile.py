"""A file of fixed-size rows by client that only grows: what was written once is never changed in place."""

import os
import weakref
import zlib
from pathlib import Path

import numpy as np

from fedsim.errors import CheckpointError, CorruptError

HEAD = 8  # bytes before a row: its CRC-32, filled up


class RowFile:
    """Rows appended to a file; where each client's newest one starts is kept in memory.

    The file up to a length that a commit names is what it was at that commit; what lies beyond was never committed and is
    cut off when the file is opened.

    Attributes:
      offset: where the newest row of every client starts `[N]`, −1 = there is none.
      length: bytes in use.
    """

    def __init__(self, folder: Path, generation: int, size: int, N: int):
        self.folder, self.generation, self.size = folder, generation, size
        self.name = f"memory-{generation}.rows"
        self.offset, self.length = np.full(N, -1, np.int64), 0
        self.file: int | None = None  # its descriptor, while it is open

    def open(self) -> int:
        """The file's descriptor, opened at first use.

        Raises:
          CorruptError: when the file is shorter than it was.
        """
        if self.file is None:
            self.file = os.open(
                self.folder / self.name,
                os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
                0o666,
            )
            self.closing = weakref.finalize(self, os.close, self.file)
            size = os.fstat(self.file).st_size
            if size < self.length:
                raise CorruptError(
                    f"{self.folder / self.name}: is shorter than the {self.length} bytes it had"
                )
            if size > self.length:
                os.ftruncate(self.file, self.length)
        return self.file

    def close(self) -> None:
        """Give the descriptor back."""
        if self.file is not None:
            self.file = None
            self.closing()

    def sync(self) -> None:
        """Wait until everything appended is on the disk."""
        os.fsync(self.open())

    def wasteful(self, spare: int) -> bool:
        """Whether more than half of the file, and more than `spare` bytes, are rows that newer ones replaced."""
        living = int((self.offset >= 0).sum()) * (HEAD + self.size)
        return self.length > 2 * living + spare

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Rows of these clients as bytes `[len(ids), size]`, zeros where there is none.

        Raises:
          CheckpointError: when a row is not what was written.
        """
        raw = np.zeros((len(ids), self.size), np.uint8)
        for k in np.flatnonzero(self.offset[ids] >= 0):
            at = int(self.offset[ids[k]])
            row = os.pread(self.open(), HEAD + self.size, at)
            if len(row) < HEAD + self.size or _crc(int(ids[k]), at, row[HEAD:]) != int.from_bytes(
                row[:4], "little"
            ):
                raise CheckpointError(
                    f"{self.folder / self.name}: the row of client {ids[k]} is damaged"
                )
            raw[k] = np.frombuffer(row, np.uint8, self.size, HEAD)
        return raw

    def append(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """New rows of these clients, as bytes `[len(ids), size]`."""
        if not len(ids):
            return
        offsets = self.length + (HEAD + self.size) * np.arange(len(ids))
        pieces = np.zeros((len(ids), HEAD + self.size), np.uint8)
        pieces[:, HEAD:] = rows
        crcs = [
            _crc(int(i), int(at), row.tobytes())
            for i, at, row in zip(ids, offsets, rows, strict=True)
        ]
        pieces[:, :4] = np.array(crcs, "<u4").view(np.uint8).reshape(-1, 4)
        _pwrite(self.open(), pieces.tobytes(), self.length)
        self.length += pieces.size
        self.offset[ids] = offsets

    def written_anew(self) -> "RowFile":
        """The living rows alone, under the next name; this file stays for the commits that name it."""
        fresh = RowFile(self.folder, self.generation + 1, self.size, len(self.offset))
        ids = np.flatnonzero(self.offset >= 0)
        for first in range(0, len(ids), 4096):
            chunk = ids[first : first + 4096]
            fresh.append(chunk, self.read(chunk))
        self.close()
        return fresh


def _pwrite(file: int, data: bytes, at: int) -> None:
    """All of the data, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        done = os.pwrite(file, view, at)
        view, at = view[done:], at + done


def _crc(id: int, at: int, row: bytes) -> int:
    """Over the row and where it belongs, so that a row moved elsewhere does not fit."""
    return zlib.crc32(row, zlib.crc32(f"{id} {at}".encode()))
