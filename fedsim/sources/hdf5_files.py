"""HDF5 files of examples by client, as TensorFlow Federated distributes them: `examples/CLIENT/FIELD`.

HDF5 knows links to other files, data sets put together from other files, references to objects, and filters that are
loaded as programs; sizes in it are promises. All of that is looked at before a value is read, and refused.
"""

import math
import mmap
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.files import MOST_BYTES, MOST_RATIO, SMALL_BYTES, opened
from fedsim.sources.hdf5_heap import POINTER, Heap
from fedsim.sources.names import fault_of

SHUFFLE, DEFLATE, CHECKSUM = 2, 1, 3  # numbers of the filters that HDF5 itself brings
PIPELINES = [[f for f in (SHUFFLE, DEFLATE, CHECKSUM) if f in some] for some in (
    (), (SHUFFLE,), (DEFLATE,), (CHECKSUM,), (SHUFFLE, DEFLATE), (SHUFFLE, CHECKSUM), (DEFLATE, CHECKSUM),
    (SHUFFLE, DEFLATE, CHECKSUM),
)]  # fmt: skip
MOST_CHUNK = 64 << 20  # bytes of a chunk, which is unpacked at once
MOST_NAME = 200  # characters of a client's id
PLAIN = "an examples group with a group of arrays for each client is needed, as TensorFlow Federated writes it"


class Examples:
    """The examples of a file, client after client.

    Args:
      file: opened by h5py.
      content: of the file.

    Attributes:
      clients: their ids, sorted.
    """

    def __init__(self, file: Any, content: mmap.mmap):
        created = file.id.get_create_plist()
        if created.get_sizes() != (8, 8):
            raise DataError(f"addresses and sizes of {created.get_sizes()} bytes; those of 8 bytes are read")
        self.content, self.heap = content, Heap(content, created.get_userblock())
        self.left = min(MOST_BYTES, max(MOST_RATIO * len(content), SMALL_BYTES))
        self.group = _hard(file, "examples", "group")
        names = list(self.group)
        for name in names:
            if isinstance(name, bytes):  # which is how h5py gives what is not UTF-8
                raise DataError(f"client {fault_of(name.decode('utf-8', 'surrogateescape'))}")
        self.clients = sorted(names)
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
            return self._texts(values) if _varies(values) else self._numbers(values)
        except DataError as error:
            raise DataError(f"client {client!a}, {field}: {error}") from None

    def _numbers(self, values: Any) -> np.ndarray:
        if values.dtype.kind not in "biufS":
            raise DataError(f"numbers or texts are needed, found {values.dtype}")
        for _ in self._content(values, values.dtype.itemsize):
            pass  # it is there, all of it
        return values[...]

    def _texts(self, values: Any) -> np.ndarray:
        content = b"".join(self._content(values, POINTER.itemsize))
        pointers = np.frombuffer(content, POINTER)[: math.prod(values.shape)]
        self._take(values, int(pointers["length"].sum(dtype=np.int64)))
        texts = np.empty(len(pointers), object)
        texts[:] = self.heap.texts(pointers)
        return texts.reshape(values.shape)

    def _content(self, values: Any, item: int) -> Iterator[bytes]:
        """The bytes of an array in the file; those of chunks unpacked, one after another.

        Raises:
          DataError: where they lie elsewhere, are not there, or unpack to more than they say.
        """
        if values.is_virtual or values.external:
            raise DataError("its values lie in other files, which are not read")
        if values.shape is None or values.ndim == 0:
            raise DataError(f"an array with a row for each example is needed; {PLAIN}")
        if _varies(values) and values.ndim != 1:
            raise DataError(f"texts are needed one by one, found {values.shape}")
        created = values.id.get_create_plist()
        pipeline = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
        if pipeline not in PIPELINES:
            raise DataError(f"packed by filters {pipeline}; write it plain or with gzip")
        self._take(values, math.prod(values.shape) * item)
        if values.chunks:
            yield from _chunks(values, pipeline, item)
        else:
            yield self._plain(values, item)

    def _take(self, values: Any, size: int) -> None:
        """Count bytes of an array, and refuse more than a file of this size may hold."""
        self.left -= size
        if self.left < 0:
            text = f"with those before it, unpacks to more than {MOST_BYTES} bytes, or {MOST_RATIO} times its size"
            raise DataError(f"{values.dtype} {values.shape}: {text}")

    def _plain(self, values: Any, item: int) -> bytes:
        """The bytes of an array that lies in one piece; of numbers none, once it is known that they are there."""
        size, stored = math.prod(values.shape) * item, values.id.get_storage_size()
        if stored != size:
            raise DataError(f"promises {size} bytes, and {stored} are there")
        place = values.id.get_offset()
        if not size or not _varies(values):
            return b""
        if place is None or place + size > len(self.content):
            raise DataError("its texts are not where they should be")
        return self.content[place : place + size]


def _varies(values: Any) -> bool:
    """Whether an array holds texts of any length."""
    import h5py

    text = h5py.check_string_dtype(values.dtype)
    return text is not None and text.length is None


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
            with (
                mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content,
                h5py.File(path, "r", locking=False) as file,
            ):
                yield Examples(file, content)
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


def _chunks(values: Any, pipeline: list[int], item: int) -> Iterator[bytes]:
    """The unpacked bytes of the chunks of an array, in its order; of numbers that are not packed, none.

    Raises:
      DataError: for chunks that unpack to more than they should, or are not there.
    """
    whole = math.prod(values.chunks) * item
    if whole > MOST_CHUNK:
        raise DataError(f"chunks of {whole} bytes; at most {MOST_CHUNK}")
    needed = math.prod(-(-side // chunk) for side, chunk in zip(values.shape, values.chunks, strict=True))
    if values.id.get_num_chunks() != needed:
        size = math.prod(values.shape) * item
        raise DataError(f"promises {size} bytes in {needed} chunks, and {values.id.get_num_chunks()} are there")
    if _varies(values) and pipeline not in ([], [DEFLATE]):
        raise DataError("texts packed otherwise than with gzip are not read")
    chunks: list[Any] = []
    values.id.chunk_iter(chunks.append)
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_offset):
        if chunk.filter_mask or chunk.size > whole + (whole >> 8) + 1024:
            raise DataError(f"a chunk of {chunk.size} bytes, which should unpack to {whole}")
        if _varies(values) or DEFLATE in pipeline:
            yield _unpacked(values.id.read_direct_chunk(chunk.chunk_offset)[1], pipeline, whole)


def _unpacked(content: bytes, pipeline: list[int], whole: int) -> bytes:
    """A chunk of so many bytes."""
    if DEFLATE in pipeline:
        content = zlib.decompressobj().decompress(content, whole + 1)
    if len(content) != whole:
        raise DataError(f"a chunk does not unpack to {whole} bytes")
    return content
