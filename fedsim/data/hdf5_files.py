"""HDF5 files of examples by client, as TensorFlow Federated distributes them: `examples/CLIENT/FIELD`.

HDF5 knows links to other files, data sets put together from other files, references to objects, and filters that are
loaded as programs; sizes in it are promises. All of that is looked at before a value is read, and refused.
"""

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.data.files import MOST_BYTES, MOST_RATIO, SMALL_BYTES, opened
from fedsim.errors import DataError

SHUFFLE, DEFLATE, CHECKSUM = 2, 1, 3  # numbers of the filters that HDF5 itself brings
PIPELINES = [[f for f in (SHUFFLE, DEFLATE, CHECKSUM) if f in some] for some in (
    (), (SHUFFLE,), (DEFLATE,), (CHECKSUM,), (SHUFFLE, DEFLATE), (SHUFFLE, CHECKSUM), (DEFLATE, CHECKSUM),
    (SHUFFLE, DEFLATE, CHECKSUM),
)]  # fmt: skip
MOST_CHUNK = 64 << 20  # bytes of a chunk, which is unpacked at once
MOST_NAME = 200  # characters of a client's id
POINTER = np.dtype([("length", "<u4"), ("place", "<u8"), ("index", "<u4")])  # of a text in the file
PLAIN = "an examples group with a group of arrays for each client is needed, as TensorFlow Federated writes it"


class Examples:
    """The examples of a file, client after client.

    Args:
      file: opened by h5py.
      size: of the file, in bytes.

    Attributes:
      clients: their ids, sorted.
    """

    def __init__(self, file: Any, size: int):
        self.size, self.left = size, min(MOST_BYTES, max(MOST_RATIO * size, SMALL_BYTES))
        self.group = _hard(file, "examples", "group")
        self.clients = sorted(self.group)
        for name in self.clients:
            if not 0 < len(name) <= MOST_NAME or not name.isprintable():
                raise DataError(f"client {name[:40]!a}: an id is a text of 1 to {MOST_NAME} printable characters")

    def fields(self, client: str) -> list[str]:
        """Names of what a client's examples consist of."""
        return sorted(_hard(self.group, client, "group"))

    def read(self, client: str, field: str) -> np.ndarray:
        """A field of a client's examples: numbers `[n, ...]`, or texts as bytes `[n]`.

        Raises:
          DataError: for what is no plain array, or would fill the memory.
        """
        try:
            values = _hard(_hard(self.group, client, "group"), field, "dataset")
            self._require_plain(values)
            return values[...]
        except DataError as error:
            raise DataError(f"client {client!a}, {field}: {error}") from None

    def _require_plain(self, values: Any) -> None:
        """Refuse an array whose bytes are elsewhere, are no numbers or texts, or are more than the file can hold."""
        if values.is_virtual or values.external:
            raise DataError("its values lie in other files, which are not read")
        if values.shape is None or values.ndim == 0:
            raise DataError(f"an array with a row for each example is needed; {PLAIN}")
        pipeline = [
            values.id.get_create_plist().get_filter(i)[0] for i in range(values.id.get_create_plist().get_nfilters())
        ]
        if pipeline not in PIPELINES:
            raise DataError(f"packed by filters {pipeline}; write it plain or with gzip")
        size = self._unpacked(values, pipeline)
        if size > self.left:
            text = f"with those before it, unpacks to more than {MOST_BYTES} bytes, or {MOST_RATIO} times its size"
            raise DataError(f"{values.dtype} {values.shape}: {text}")
        self.left -= size

    def _unpacked(self, values: Any, pipeline: list[int]) -> int:
        """Bytes of an array in memory, of which each is there."""
        import h5py

        text = h5py.check_string_dtype(values.dtype)
        varies = text is not None and text.length is None
        if not varies and values.dtype.kind not in "biufS":
            raise DataError(f"numbers or texts are needed, found {values.dtype}")
        item = POINTER.itemsize if varies else values.dtype.itemsize
        size = math.prod(values.shape) * item
        if size > self.left:
            return size
        content = _chunks(values, pipeline, size, item) if values.chunks else _plain(values, size)
        if not varies:
            for _ in content:
                pass
            return size
        return size + sum(int(np.frombuffer(part, POINTER)["length"].sum(dtype=np.int64)) for part in content)


@contextmanager
def examples(path: Path) -> Iterator[Examples]:
    """The examples of a file; faults are headed by its name.

    Raises:
      DataError: for another file, or where h5py is missing.
    """
    try:
        import h5py
    except ImportError:
        raise DataError("tff_hdf5 needs h5py: pip install 'fedsim-jax[hdf5]', or pip install h5py") from None
    with opened(str(path), None, math.inf) as raw:
        try:
            with h5py.File(path, "r", locking=False) as file:
                yield Examples(file, raw.seek(0, 2))
        except DataError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, zlib.error) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"not a sound HDF5 file: {reason[:200]}") from None


def _hard(group: Any, name: str, kind: str) -> Any:
    """A member of a group that lies in the file itself, under its own name.

    Raises:
      DataError: for links by name, into other files too, and for what is no group, or no array.
    """
    import h5py

    if name not in group.keys():  # noqa: SIM118 (a group resolves paths; its keys are names)
        raise DataError(f"no {name[:60]!a}; {PLAIN}")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{name[:60]!a} is a link to what lies elsewhere, which is not followed")
    member = group[name]
    if not isinstance(member, h5py.Group if kind == "group" else h5py.Dataset):
        raise DataError(f"{name[:60]!a} is no {kind}; {PLAIN}")
    return member


def _plain(values: Any, size: int) -> Iterator[bytes]:
    """The bytes of an array that lies in one piece.

    Raises:
      DataError: where they are not in the file.
    """
    if values.id.get_storage_size() != size:
        raise DataError(f"promises {size} bytes, and {values.id.get_storage_size()} are there")
    if values.dtype.kind != "O" or not size:
        return
    place = values.id.get_offset()
    if place is None:
        raise DataError("texts within the header of an array are not read")
    with open(values.file.filename, "rb") as file:
        file.seek(place)
        content = file.read(size)
    if len(content) != size:
        raise DataError("ends before its texts")
    yield content


def _chunks(values: Any, pipeline: list[int], size: int, item: int) -> Iterator[bytes]:
    """The unpacked bytes of the chunks of an array; of numbers none, once it is known that they unpack to as much as they say.

    Raises:
      DataError: for chunks that unpack to more, or are not there.
    """
    whole = math.prod(values.chunks) * item
    if whole > MOST_CHUNK:
        raise DataError(f"chunks of {whole} bytes; at most {MOST_CHUNK}")
    needed = math.prod(-(-side // chunk) for side, chunk in zip(values.shape, values.chunks, strict=True))
    if values.id.get_num_chunks() != needed:
        raise DataError(f"promises {size} bytes in {needed} chunks, and {values.id.get_num_chunks()} are there")
    texts = values.dtype.kind == "O"
    if texts and SHUFFLE in pipeline:
        raise DataError("texts packed with a shuffle filter are not read")
    chunks: list[Any] = []
    values.id.chunk_iter(chunks.append)
    for info in chunks:
        if info.filter_mask or info.size > whole + (whole >> 8) + 1024:
            raise DataError(f"a chunk of {info.size} bytes, which should unpack to {whole}")
        if not texts and DEFLATE not in pipeline:
            continue
        content = values.id.read_direct_chunk(info.chunk_offset)[1]
        if DEFLATE in pipeline:
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(content, whole + 1)
        if len(content) < whole or (DEFLATE in pipeline and len(content) > whole):
            raise DataError(f"a chunk does not unpack to {whole} bytes")
        if texts:
            yield content[:whole]
