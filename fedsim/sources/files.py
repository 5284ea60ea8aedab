"""Files that may be anybody's: what is checked before one is read."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

from annotated_types import MinLen

from fedsim.errors import DataError

MOST_BYTES = 8 << 30  # of a file, unpacked
MOST_RATIO, SMALL_BYTES = 200, 4 << 20  # unpacked to packed, for what is not small anyway
LIST_BYTES, FEW_LISTS = (
    6,
    100_000,
)  # bytes of JSON for each list or mapping in it, and so many that need no such room
Name = Annotated[str, MinLen(1)]


@contextmanager
def opened(path: str, sha256: str | None = None, most: float = MOST_BYTES) -> Iterator[BinaryIO]:
    """The file, opened for bytes; its name stands in front of every fault that is found while it is open.

    Args:
      path: of the file.
      sha256: what its content must hash to.
      most: bytes that it may have.

    Raises:
      DataError: for what is no regular file (a device may never end), another file than the one meant, or a huge one.
    """
    try:
        with _regular(path) as file:
            size = file.seek(0, 2)
            if size > most:
                raise DataError(f"larger than {most} bytes: {size}")
            if sha256 is not None and (actual := _digest(file)) != sha256.lower():
                raise DataError(
                    f"another file than the one meant: its SHA-256 is {actual}, expected {sha256[:80]}"
                )
            file.seek(0)
            yield file
    except DataError as error:
        raise error.within(path) from None


def require_few_lists(content: bytes) -> None:
    """Refuse JSON that is mostly lists or mappings: of an empty one, of two bytes, Python holds seventy.

    Args:
      content: the JSON text.

    Raises:
      DataError: for more of them than `LIST_BYTES` allows.
    """
    count = content.count(b"[") + content.count(b"{")
    if count > FEW_LISTS + len(content) // LIST_BYTES:
        raise DataError(
            f"{count} lists and mappings in {len(content)} bytes of JSON; no data set is written so"
        )


def require_content(file: BinaryIO) -> None:
    """Refuse a file that is mostly holes: it takes no room on the disk, and would fill the memory.

    Raises:
      DataError: where its content is less than 1 / `MOST_RATIO` of its size.
    """
    size = os.fstat(file.fileno()).st_size
    if size <= SMALL_BYTES or not hasattr(os, "SEEK_DATA"):
        return
    there = 0
    end = 0
    while MOST_RATIO * there < size:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # of a file system that knows no holes
                return
            text = f"{size} bytes, of which {there} are there and the others are holes; write the whole file"
            raise DataError(text) from None
        end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        there += end - start


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file."""
    try:
        with _regular(path) as file:
            return _digest(file)
    except DataError as error:
        raise error.within(str(path)) from None


def _regular(path: str | Path) -> BinaryIO:
    """A regular file; checked after it was opened without waiting, since a pipe may have no other end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DataError("not a regular file; give the file that holds the samples")
    file = os.fdopen(descriptor, "rb")
    try:
        require_content(file)
    except DataError:
        file.close()
        raise
    return file


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
