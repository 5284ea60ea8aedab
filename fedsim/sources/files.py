"""Files that may be anybody's: what is checked before one is read."""

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
            if file.seek(0, 2) > most:
                raise DataError(f"larger than {most / (1 << 30):g} GiB")
            if sha256 is not None and (actual := _digest(file)) != sha256.lower():
                raise DataError(f"another file than the one meant: its SHA-256 is {actual}, expected {sha256[:80]}")
            file.seek(0)
            yield file
    except DataError as error:
        raise error.within(path) from None


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file."""
    with _regular(path) as file:
        return _digest(file)


def _regular(path: str | Path) -> BinaryIO:
    """A regular file; checked after it was opened without waiting, since a pipe may have no other end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DataError("not a regular file; give the file that holds the samples")
    return os.fdopen(descriptor, "rb")


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
