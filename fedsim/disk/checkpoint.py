"""A checkpoint as bytes: a header, named arrays, and a hash of all of it.

    fedsim-checkpoint 2 0.6.0\\n      format and version of the writer
    length of the header             8 bytes
    header                           JSON
    arrays                           little-endian
    SHA-256 of everything above      32 bytes

Nothing in it is ever executed or unpickled. A checkpoint of which a bit was flipped, or a part was
cut off or replaced, does not match its hash.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim._version import __version__
from fedsim.errors import CheckpointError, CorruptError

FORMAT = 2
MAGIC = b"fedsim-checkpoint"
FIRST_LINE = re.compile(MAGIC + rb" (\d{1,6}) ([0-9A-Za-z.+-]{1,40})\n")
LENGTH_BYTES = 8  # of the field that holds the header's length
HASH_BYTES = 32


class Snapshot(NamedTuple):
    """The state that a run resumes from: plain values, and arrays by name."""

    values: dict[str, Any]
    arrays: dict[str, np.ndarray]


def encode(snapshot: Snapshot) -> Iterator[bytes | memoryview]:
    """Yield the parts of a checkpoint file, in order."""
    arrays = {name: np.asarray(array, order="C") for name, array in snapshot.arrays.items()}
    leaves = [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()]
    header = json.dumps({"values": snapshot.values, "leaves": leaves}).encode()

    digest = hashlib.sha256()
    first_line = b"%s %d %s\n" % (MAGIC, FORMAT, __version__.encode())
    header_length = len(header).to_bytes(LENGTH_BYTES, "little")
    for part in (first_line, header_length, header, *map(_bytes, arrays.values())):
        digest.update(part)
        yield part
    yield digest.digest()


def decode(blob: bytes) -> Snapshot:
    """Return the snapshot in the bytes of a file; its arrays are read-only views of them.

    Raises:
      CorruptError: when the bytes are not a sound checkpoint.
      CheckpointError: when another version of fedsim wrote them in another format.
    """
    first_line = FIRST_LINE.match(blob)
    if not first_line:
        raise CorruptError("is not a fedsim checkpoint")
    written_format = int(first_line[1])
    if written_format != FORMAT:
        writer = f"was written by fedsim {first_line[2].decode()} in format {written_format}"
        reader = f"fedsim {__version__} reads format {FORMAT}"
        raise CheckpointError(f"{writer}; {reader}: finish the run with that version")
    if hashlib.sha256(memoryview(blob)[:-HASH_BYTES]).digest() != blob[-HASH_BYTES:]:
        raise CorruptError("is damaged: its SHA-256 does not match")
    try:
        return _parse(blob, first_line.end())
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptError(f"is damaged: {error}") from None


def leaves_by_name(prefix: str, variables: Any) -> dict[str, np.ndarray]:
    """Return the leaves of a PyTree as NumPy arrays, by the prefix and their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(variables)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restore_tree(prefix: str, arrays: dict[str, np.ndarray], like: Any) -> Any:
    """Return the PyTree whose leaves `leaves_by_name` returned, in the structure of `like`.

    Raises:
      CheckpointError: when a leaf is missing, or has another shape or type.
    """

    def leaf_like(path, expected):
        name = prefix + jax.tree_util.keystr(path)
        array = arrays.get(name)
        if array is None:
            raise CheckpointError(f"{name}: missing; expected {_kind(expected)}")
        if array.shape != expected.shape or array.dtype != expected.dtype:
            raise CheckpointError(f"{name}: {_kind(array)}; expected {_kind(expected)}")
        return array

    return jax.tree_util.tree_map_with_path(leaf_like, like)


def digest(variables: Any) -> str:
    """Return the SHA-256 of the leaves of a PyTree: equal PyTrees are equal bit for bit."""
    combined = hashlib.sha256()
    for name, leaf in leaves_by_name("", variables).items():
        combined.update(f"{name} {leaf.dtype} {leaf.shape}\n".encode())
        combined.update(_bytes(leaf))
    return combined.hexdigest()


def row_bytes(rows: tree.Tree) -> np.ndarray:
    """Return the rows of a stacked PyTree `[K, ...]` as bytes `[K, size]`."""
    parts = []
    for leaf in jax.tree.leaves(rows):
        flat = np.ascontiguousarray(leaf).reshape(len(leaf), math.prod(leaf.shape[1:]))
        parts.append(flat.view(np.uint8))
    return np.concatenate(parts, axis=1)


def rows_from(raw: np.ndarray, like: tree.Tree) -> tree.Tree:
    """Return the rows of which `row_bytes` made bytes `[K, size]`.

    Args:
      like: a PyTree with the shapes and types of one row.
    """
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves])
    parts = np.split(raw, ends[:-1], axis=1)
    rows = []
    for part, leaf in zip(parts, leaves, strict=True):
        values = np.ascontiguousarray(part).view(leaf.dtype)
        rows.append(values.reshape(len(raw), *leaf.shape))
    return jax.tree.unflatten(structure, rows)


def _parse(blob: bytes, start: int) -> Snapshot:
    """The snapshot in bytes whose hash matches.

    Args:
      start: the end of the first line.
    """
    header_start = start + LENGTH_BYTES
    header_length = int.from_bytes(blob[start:header_start], "little")
    position = header_start + header_length
    header = json.loads(blob[header_start:position])

    arrays = {}
    for name, type_name, shape in header["leaves"]:
        dtype = np.dtype(type_name)
        count = math.prod(shape)
        if count:
            arrays[name] = np.frombuffer(blob, dtype, count, position).reshape(shape)
        else:
            arrays[name] = np.zeros(shape, dtype)
        position += count * dtype.itemsize
    return Snapshot(dict(header["values"]), arrays)


def _kind(array: Any) -> str:
    """`float32[2, 3]`."""
    return f"{array.dtype}{list(array.shape)}"


def _bytes(array: np.ndarray) -> memoryview:
    if not array.size:
        return memoryview(b"")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
