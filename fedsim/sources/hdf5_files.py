"""HDF5 files of examples by client, as TensorFlow Federated has them: `examples/CLIENT/FIELD`."""

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.files import MAX_BYTES, MAX_RATIO, SMALL_BYTES, opened, sound
from fedsim.sources.names import fault_of_name

MAX_ID_CHARACTERS = 200
TEXTS_AT_ONCE = 100  # that are read before their bytes are counted
PLAIN = (
    "expected an examples group with a group of arrays for each client, "
    "as TensorFlow Federated writes it"
)


class Examples:
    """The examples of a file, client by client.

    Args:
      file: the file, opened by h5py.
      max_bytes: what everything that is read may unpack to.

    Attributes:
      clients: the ids of the clients, sorted.

    Raises:
      DataError: for invalid ids.
    """

    def __init__(self, file: Any, max_bytes: int):
        self.remaining = max_bytes
        self.group = _member(file, "examples", "group")
        self.clients = sorted(_as_text(name) for name in self.group)
        for client in self.clients:
            fault = fault_of_name(client)
            if fault is not None:
                raise DataError(f"client {fault}")
            if not 0 < len(client) <= MAX_ID_CHARACTERS or not client.isprintable():
                rule = f"an id is a text of 1 to {MAX_ID_CHARACTERS} printable characters"
                raise DataError(f"client {client[:40]!a}: {rule}")

    def fields(self, client: str) -> list[str]:
        """Return the names of the fields of a client's examples."""
        return sorted(_as_text(name) for name in _member(self.group, client, "group"))

    def read(self, fields: Sequence[str], clients: int | None = None) -> Iterator[list[np.ndarray]]:
        """Yield fields of each client's examples: numbers `[n, ...]`, or texts as bytes `[n]`.

        Args:
          fields: the names of the fields.
          clients: how many clients are read, the first ones; None: all.

        Raises:
          DataError: for fields that are not plain arrays, or would fill the memory.
        """
        for client in self.clients[:clients]:
            yield [self._values(client, field) for field in fields]

    def _values(self, client: str, field: str) -> np.ndarray:
        try:
            values = _member(_member(self.group, client, "group"), field, "dataset")
            self._require_content(values)
            with sound("HDF5 file"):
                return self._texts(values) if _holds_texts(values) else values[...]
        except DataError as error:
            raise error.with_prefix(f"client {client!a}, {field}") from None

    def _texts(self, values: Any) -> np.ndarray:
        """Texts, a few at a time, since many may be stored once."""
        texts: list[bytes] = []
        for first in range(0, len(values), TEXTS_AT_ONCE):
            batch = values[first : first + TEXTS_AT_ONCE].tolist()
            self._count(values, sum(map(len, batch)))
            texts += batch
        return np.fromiter(texts, object, len(texts))

    def _require_content(self, values: Any) -> None:
        """Refuse an array whose values are in other files, are missing, or fill the memory."""
        if values.is_virtual or values.external:
            raise DataError("its values are in other files, which are not read")
        if values.shape is None or values.ndim == 0:
            raise DataError(f"not an array with a row for each example; {PLAIN}")
        if not _holds_texts(values) and values.dtype.kind not in "biufS":
            raise DataError(f"expected numbers or texts, found {values.dtype}")
        self._count(values, values.nbytes)
        needed = 1
        stored = 1
        if values.chunks:
            sides = zip(values.shape, values.chunks, strict=True)
            needed = math.prod(-(-side // chunk_side) for side, chunk_side in sides)  # rounded up
            stored = values.id.get_num_chunks()
        if stored < needed or (values.size and not values.id.get_storage_size()):
            raise DataError(f"promises {values.nbytes} bytes, but not all of them are there")

    def _count(self, values: Any, size: int) -> None:
        """Count bytes of an array, and refuse more than a file of this size may hold."""
        self.remaining -= size
        if self.remaining < 0:
            limit = f"{MAX_BYTES} bytes, or {MAX_RATIO} times its size"
            problem = f"unpacks, with the arrays before it, to more than {limit}"
            raise DataError(f"{values.dtype} {values.shape}: {problem}")


@contextlib.contextmanager
def examples(path: Path) -> Iterator[Examples]:
    """Open the examples of a file; errors name the file.

    Raises:
      DataError: for another file, or where h5py is missing.
    """
    try:
        import h5py
    except ImportError:
        install = "pip install 'fedsim-jax[hdf5]', or pip install h5py"
        raise DataError(f"tff_hdf5 needs h5py: {install}") from None
    with opened(str(path), None, math.inf) as source, contextlib.ExitStack() as stack:
        size = os.fstat(source.fileno()).st_size
        with sound("HDF5 file"):
            file = stack.enter_context(h5py.File(path, "r", locking=False))
        yield Examples(file, min(MAX_BYTES, max(MAX_RATIO * size, SMALL_BYTES)))


def _member(group: Any, name: str, kind: str) -> Any:
    """A member of a group that is stored in the file itself, under its own name.

    Args:
      group: the group.
      name: the member's name.
      kind: `group` or `dataset`.

    Raises:
      DataError: for links by name, also into other files, and for members of another kind.
    """
    import h5py

    with sound("HDF5 file"):
        if name not in group.keys():  # noqa: SIM118 (a group resolves paths; its keys are names)
            raise DataError(f"no {name[:60]!a}; {PLAIN}")
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise DataError(f"{name[:60]!a} is a link to another object, which is not followed")
        member = group[name]
        if not isinstance(member, h5py.Group if kind == "group" else h5py.Dataset):
            raise DataError(f"{name[:60]!a} is not a {kind}; {PLAIN}")
        return member


def _holds_texts(values: Any) -> bool:
    """Whether an array holds texts of any length."""
    import h5py

    text = h5py.check_string_dtype(values.dtype)
    return text is not None and text.length is None


def _as_text(name: str | bytes) -> str:
    """A name as text; h5py returns names that are not UTF-8 as bytes."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
