"""Zip archives that may come from anybody: what is checked before a member is read."""

import io
from typing import BinaryIO

from fedsim.errors import DataError
from fedsim.sources.files import MAX_BYTES, MAX_RATIO, SMALL_BYTES

MAX_LIST_BYTES = 1 << 20  # of a zip's list of members
TAIL_BYTES = 22 + 65_535  # the end of a zip: a record and a comment
END_RECORD = b"PK\5\6"  # begins the record of the end, which has the list's size at byte 12


def require_short_list(file: BinaryIO) -> None:
    """Refuse a long list of members before `zipfile` reads it into memory.

    The archive is opened for bytes, and is at its start afterwards.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - TAIL_BYTES, 0))
    tail = file.read()
    record = tail.rfind(END_RECORD)
    if record >= 0:
        list_bytes = int.from_bytes(tail[record + 12 : record + 16], "little")
        if list_bytes > MAX_LIST_BYTES:
            raise DataError("lists too many files")
    file.seek(0)


def require_small(packed: int, unpacked: int, max_bytes: float = MAX_BYTES) -> None:
    """Refuse members that unpack to over `max_bytes`, or `MAX_RATIO` times the packed bytes."""
    if unpacked > max_bytes or unpacked > max(MAX_RATIO * packed, SMALL_BYTES):
        raise DataError(
            f"unpacks from {packed} to {unpacked} bytes; "
            f"at most {MAX_RATIO}-fold and {max_bytes} bytes"
        )
