"""Files that may come from anybody: what is checked before one is read."""

import errno
import gzip
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

from annotated_types import MinLen

from fedsim.errors import DataError, Failure
from fedsim.limits import memory_limit, require_memory

MAX_BYTES = 8 << 30  # of a file, unpacked
MAX_RATIO = 200  # unpacked to packed bytes
SMALL_BYTES = 4 << 20  # up to which unpacked files may have any ratio
BEGINNING_BYTES = 32 << 20  # up to which the beginning of a file may have any ratio
CHUNK_BYTES = 1 << 20  # unpacked at a time
FEW_LISTS = 100_000  # lists and mappings that any JSON may have
LIST_BYTES = 6  # bytes of JSON that each further list or mapping needs
INVALID_TOKEN = "(a byte that is not UTF-8, or a character that XML does not allow)"
GZIP = b"\x1f\x8b"  # begins a gzipped file

Name = Annotated[str, MinLen(1)]


@contextmanager
def opened(
    path: str, sha256: str | None = None, max_bytes: float = MAX_BYTES
) -> Iterator[BinaryIO]:
    """Open a file for bytes; errors about the data that are raised while it is open name the file.

    Raises:
      DataError: for anything but a regular file (a device may never end), for a file with another
        hash, and for a huge one.
    """
    try:
        with _regular(path) as file:
            size = file.seek(0, io.SEEK_END)
            if size > max_bytes:
                raise DataError(f"larger than {max_bytes} bytes: {size}")
            if sha256 is not None:
                require_hash(_digest(file), sha256, "file: its")
            file.seek(0)
            yield file
    except DataError as error:
        raise error.with_prefix(path) from None


@contextmanager
def sound(noun: str) -> Iterator[None]:
    """Turn whatever a library raises about a damaged file, a `noun`, into one line."""
    try:
        yield
    except (Failure, MemoryError):
        raise
    except Exception as error:  # parsers raise dozens of kinds
        reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        reason = reason.replace("(invalid token)", INVALID_TOKEN)
        raise DataError(f"not a sound {noun}: {reason}") from None


def unpacked(file: BinaryIO) -> bytes:
    """Return the content of a file, plain or gzipped, if that fits into memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    require_memory(file=size)
    is_packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if not is_packed:
        return file.read()
    content = io.BytesIO()
    with sound("gzip file"), gzip.GzipFile(fileobj=file) as packed:
        while part := packed.read(CHUNK_BYTES):
            content.write(part)
            _require_ratio(content, max(MAX_RATIO * file.tell(), BEGINNING_BYTES))
    _require_ratio(content, max(MAX_RATIO * size, SMALL_BYTES))
    return content.getvalue()


def _require_ratio(content: io.BytesIO, by_ratio: int) -> None:
    most = min(MAX_BYTES, by_ratio, memory_limit())
    if content.tell() > most:
        raise DataError(f"unpacks to more than {most} bytes, at most {MAX_RATIO}-fold")


def require_few_lists(content: bytes) -> None:
    """Refuse JSON that is mostly lists or mappings: Python needs 70 bytes for an empty one."""
    count = content.count(b"[") + content.count(b"{")
    if count > FEW_LISTS + len(content) // LIST_BYTES:
        raise DataError(
            f"{count} lists and mappings in {len(content)} bytes of JSON; "
            "no data set is written like that"
        )


def require_content(file: BinaryIO) -> None:
    """Refuse a file that is mostly holes, which takes no space on the disk but fills the memory."""
    size = os.fstat(file.fileno()).st_size
    if size <= SMALL_BYTES or not hasattr(os, "SEEK_DATA"):
        return
    stored = 0
    end = 0
    while MAX_RATIO * stored < size:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # the file system does not support holes
                return
            raise DataError(
                f"{size} bytes, of which {stored} are stored and the others are holes; "
                "write the whole file"
            ) from None
        end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        stored += end - start


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with _regular(path) as file:
            return _digest(file)
    except DataError as error:
        raise error.with_prefix(str(path)) from None


def _regular(path: str | Path) -> BinaryIO:
    """Open a regular file.

    It is opened without waiting and checked then, since a pipe may have no other end.
    """
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


def require_hash(actual: str, expected: str, noun: str) -> None:
    """Refuse data with another SHA-256, as `not the expected` noun."""
    if actual != expected.lower():
        raise DataError(f"not the expected {noun} SHA-256 is {actual}, not {expected[:80]}")


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
