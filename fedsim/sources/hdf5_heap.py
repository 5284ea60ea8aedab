"""Texts in an HDF5 file, read without HDF5: it never ends where a damaged file says that an object has no size.

An array of texts holds a pointer for each: how long the text is, and where it lies, as the index of an object in a
collection. A collection is a header of 16 bytes, then objects: a header of 16 bytes with index and size, then the content,
filled up to a multiple of 8 bytes (HDF5 File Format Specification, III.E, Global Heap).
"""

import functools
import struct
from mmap import mmap

import numpy as np

from fedsim.errors import DataError

POINTER = np.dtype([("length", "<u4"), ("place", "<u8"), ("index", "<u4")])
COLLECTION, OBJECT = struct.Struct("<4sB3xQ"), struct.Struct("<HH4xQ")


class Heap:
    """The collections of a file.

    Args:
      content: of the file.
      base: where its addresses are counted from.
    """

    def __init__(self, content: mmap, base: int):
        self.content, self.base = content, base
        self.collection = functools.lru_cache(1024)(self._collection)

    def texts(self, pointers: np.ndarray) -> list[bytes]:
        """What pointers lead to.

        Raises:
          DataError: where that is not in the file.
        """
        return [self._text(*pointer) for pointer in pointers.tolist()]

    def _text(self, length: int, place: int, index: int) -> bytes:
        if not length:
            return b""
        start, size = self.collection(place).get(index, (0, -1))
        if length > size:
            raise DataError(f"a text of {length} bytes at {place} is not there")
        return self.content[start : start + length]

    def _collection(self, place: int) -> dict[int, tuple[int, int]]:
        """Objects of a collection by index: beginning and size."""
        at = self.base + place
        if at + COLLECTION.size > len(self.content):
            raise DataError(f"texts at {place}, behind the end of the file")
        name, version, whole = COLLECTION.unpack_from(self.content, at)
        end = at + whole
        if name != b"GCOL" or version != 1 or end > len(self.content):
            raise DataError(f"texts at {place}, where none are")
        objects: dict[int, tuple[int, int]] = {}
        at += COLLECTION.size
        while at + OBJECT.size <= end:
            index, _, size = OBJECT.unpack_from(self.content, at)
            at += OBJECT.size
            if index == 0:  # what is free
                break
            if size > end - at:
                raise DataError(f"texts at {place} go on behind their end")
            objects[index] = at, size
            at += -(-size // 8) * 8
        return objects
