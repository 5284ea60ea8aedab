"""A commit as bytes: a header, named arrays, and a hash over all of it.

    fedsim-checkpoint 2 0.6.0\\n | length of the header, 8 bytes | header, JSON | arrays, little-endian | SHA-256, 32 bytes

Nothing in it is ever executed or unpickled. Whatever was flipped, cut off or spliced no longer fits the hash.
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


class Snapshot(NamedTuple):
    """Everything a run goes on from: plain values, and arrays by name."""

    values: dict[str, Any]
    arrays: dict[str, np.ndarray]


def encode(snapshot: Snapshot) -> Iterator[bytes | memoryview]:
    """A snapshot as the pieces of its file, in order."""
    arrays = {name: np.asarray(array, order="C") for name, array in snapshot.arrays.items()}
    leaves = [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()]
    header = json.dumps({"values": snapshot.values, "leaves": leaves}).encode()
    first = b"%s %d %s\n" % (MAGIC, FORMAT, __version__.encode())
    digest = hashlib.sha256()
    for piece in (first, len(header).to_bytes(8, "little"), header, *map(_bytes, arrays.values())):
        digest.update(piece)
        yield piece
    yield digest.digest()


def decode(blob: bytes) -> Snapshot:
    """The snapshot in the bytes of a file; its arrays are read-only views of them.

    Raises:
      CorruptError: when the bytes are not what was written.
      CheckpointError: when a fedsim with another format wrote them.
    """
    first = FIRST_LINE.match(blob)
    if not first:
        raise CorruptError("is no fedsim checkpoint")
    if int(first[1]) != FORMAT:
        writer = f"was written by fedsim {first[2].decode()} in format {int(first[1])}"
        raise CheckpointError(
            f"{writer}; fedsim {__version__} reads format {FORMAT}: end it with that version"
        )
    if hashlib.sha256(memoryview(blob)[:-32]).digest() != blob[-32:]:
        raise CorruptError("is damaged: its SHA-256 does not fit")
    try:
        at = first.end() + 8
        length = int.from_bytes(blob[first.end() : at], "little")
        header = json.loads(blob[at : at + length])
        at, arrays = at + length, {}
        for name, kind, shape in header["leaves"]:
            dtype, count = np.dtype(kind), math.prod(shape)
            arrays[name] = (
                np.frombuffer(blob, dtype, count, at).reshape(shape)
                if count
                else np.zeros(shape, dtype)
            )
            at += count * dtype.itemsize
        return Snapshot(dict(header["values"]), arrays)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptError(f"is damaged: {error}") from None


def named(prefix: str, variables: Any) -> dict[str, np.ndarray]:
    """The leaves of a PyTree as NumPy arrays, named by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(variables)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def fitted(prefix: str, arrays: dict[str, np.ndarray], like: Any) -> Any:
    """The PyTree of `named`, in the structure of `like`.

    Raises:
      CheckpointError: when a leaf is missing or has another shape.
    """

    def leaf(path, wanted):
        name = prefix + jax.tree_util.keystr(path)
        array = arrays.get(name)
        if array is None or array.shape != wanted.shape or array.dtype != wanted.dtype:
            kind = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise CheckpointError(f"{name}: {kind}, needed {wanted.dtype}{list(wanted.shape)}")
        return array

    return jax.tree_util.tree_map_with_path(leaf, like)


def digest(variables: Any) -> str:
    """SHA-256 over the leaves of a PyTree: two that agree are equal to the bit."""
    whole = hashlib.sha256()
    for name, leaf in named("", variables).items():
        whole.update(f"{name} {leaf.dtype} {leaf.shape}\n".encode())
        whole.update(_bytes(leaf))
    return whole.hexdigest()


def row_bytes(rows: tree.Tree) -> np.ndarray:
    """Rows of a stacked PyTree `[K, ...]` as plain bytes `[K, size]`."""
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(rows)]
    flat = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])).view(np.uint8) for leaf in leaves]
    return np.concatenate(flat, axis=1)


def rows_from(raw: np.ndarray, like: tree.Tree) -> tree.Tree:
    """`row_bytes` turned back: bytes `[K, size]` -> rows; `like` has the shapes and types of one row."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves])
    parts = np.split(raw, ends[:-1], axis=1)
    made = [
        np.ascontiguousarray(p).view(leaf.dtype).reshape(len(raw), *leaf.shape)
        for p, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, made)


def _bytes(array: np.ndarray) -> memoryview:
    return (
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        if array.size
        else memoryview(b"")
    )
