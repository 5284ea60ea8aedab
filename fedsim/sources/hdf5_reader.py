"""The program that reads HDF5 files for `hdf5_files`, as far as damaged ones let it.

`python hdf5_reader.py SETTINGS` answers questions: each is a line of JSON on its standard input,
and so is the answer on its standard output; arrays are written into a file that is passed open. It
imports h5py and NumPy and nothing of fedsim, and limits its own memory. An alarm is set for each
step: the system ends the process if it makes no progress.

HDF5 knows links to other files, data sets that are assembled from other files, references to
objects, and filters that are loaded as programs; sizes in it are promises. All of that is checked
and refused before a value is read.
"""

import contextlib
import json
import math
import resource
import signal
import sys
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import h5py
import numpy as np

# The filters that are part of HDF5, by their numbers.
DEFLATE = 1
SHUFFLE = 2
CHECKSUM = 3
CHECKSUM_BYTES = 4  # at the end of each chunk

PIPELINES = (
    [],
    [SHUFFLE],
    [DEFLATE],
    [CHECKSUM],
    [SHUFFLE, DEFLATE],
    [SHUFFLE, CHECKSUM],
    [DEFLATE, CHECKSUM],
    [SHUFFLE, DEFLATE, CHECKSUM],
)
TEXT_PIPELINES = ([], [DEFLATE])  # HDF5 writes texts with no others
MAX_CHUNK_BYTES = 64 << 20  # of a chunk, which is unpacked at once
BATCH_BYTES = 4 << 20  # of arrays, after which an answer ends
TEXTS_AT_ONCE = 100  # that are read together: each may be as long as the file
MIN_BYTES_PER_SECOND = 10 << 20  # that a step reads or writes
PLAIN = (
    "expected an examples group with a group of arrays for each client, "
    "as TensorFlow Federated writes it"
)
NOT_SOUND = "not a sound HDF5 file"
H5PY_ERRORS = (  # that damaged files raise
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    zlib.error,
)


class Refused(Exception):
    """The content of a file is not read; the text says why."""


class Reader:
    """The examples of a file.

    Args:
      file: the file, opened by h5py.
      settings: `max_bytes`, that everything that is read may unpack to; `limit`, the same in words;
        `seconds` for a step.

    Attributes:
      remaining: bytes that may still be read.
    """

    def __init__(self, file: Any, settings: dict[str, Any]):
        self.remaining = settings["max_bytes"]
        self.limit = settings["limit"]
        self.seconds = settings["seconds"]
        self.start_step()
        address_bytes, _ = file.id.get_create_plist().get_sizes()
        self.text_bytes = 4 + address_bytes + 4  # of a stored text: its length and its address
        self.group = member_of(file, "examples", "group")

    def start_step(self, size: int = 0) -> None:
        """Set the alarm for a step that reads that many bytes."""
        signal.alarm(self.seconds + size // MIN_BYTES_PER_SECOND)

    def answer(self, question: dict[str, Any], arrays: BinaryIO) -> Any:
        """Return the answer to a question.

        Raises:
          Refused: for data that are not plain arrays, or would fill the memory.
        """
        if question["ask"] == "clients":
            return [as_text(name) for name in self.group]
        if question["ask"] == "fields":
            client = member_of(self.group, question["client"], "group")
            return sorted(as_text(name) for name in client)
        return self.write_batch(question["clients"], question["fields"], arrays)

    def write_batch(
        self, clients: list[str], fields: list[str], arrays: BinaryIO
    ) -> list[list[bool]]:
        """Write fields of the first client into a file, and of others until it is full.

        Returns:
          For each client that was written, and each field, whether it is texts. They are written
          as two arrays: their lengths, and all bytes.
        """
        arrays.seek(0)  # the arrays of the last answer were read, and their pages are used again
        answer: list[list[bool]] = []
        for client in clients:
            remaining = self.remaining
            try:
                values = [self.read(client, field) for field in fields]
            except (Refused, MemoryError):
                if not answer:
                    raise
                self.remaining = remaining  # this client is asked for again, and refused then
                break
            for field_arrays in values:
                self.write(field_arrays, arrays)
            answer.append([len(field_arrays) == 2 for field_arrays in values])
            if arrays.tell() >= BATCH_BYTES:
                break
        return answer

    def write(self, field_arrays: list[np.ndarray], arrays: BinaryIO) -> None:
        """Append arrays to a file."""
        for array in field_arrays:
            self.start_step(array.nbytes)
            try:
                np.save(arrays, array, allow_pickle=False)
            except OSError as error:
                remedy = "set TMPDIR to another folder"
                raise Refused(f"no space for its arrays: {error}; {remedy}") from None

    def read(self, client: str, field: str) -> list[np.ndarray]:
        """Read a client's field.

        Returns:
          Numbers `[n, ...]`; or the lengths of texts `[n]`, and all bytes.
        """
        self.start_step()
        try:
            values = member_of(member_of(self.group, client, "group"), field, "dataset")
            return self.read_texts(values) if holds_texts(values) else [self.read_numbers(values)]
        except Refused as refused:
            raise Refused(f"client {client!a}, {field}: {refused}") from None
        except H5PY_ERRORS as error:
            raise Refused(f"{NOT_SOUND}: client {client!a}, {field}: {reason_of(error)}") from None

    def read_numbers(self, values: Any) -> np.ndarray:
        """Read numbers, or texts that all have the same length."""
        if values.dtype.kind not in "biufS":
            raise Refused(f"expected numbers or texts, found {values.dtype}")
        self.require_content(values, values.dtype.itemsize)
        self.start_step(values.size * values.dtype.itemsize)
        return values[...]

    def read_texts(self, values: Any) -> list[np.ndarray]:
        """Read texts, a few at a time, since each may be as long as the file."""
        self.require_content(values, self.text_bytes)
        texts: list[bytes] = []
        for first in range(0, len(values), TEXTS_AT_ONCE):
            self.start_step()
            batch = values[first : first + TEXTS_AT_ONCE].tolist()
            self.count(values, sum(map(len, batch)))
            texts += batch
        lengths = np.array([len(text) for text in texts], np.int64)
        return [lengths, np.frombuffer(b"".join(texts), np.uint8)]

    def require_content(self, values: Any, item_bytes: int) -> None:
        """Refuse an array whose values are in other files, are missing, or unpack to more.

        Args:
          values: the data set.
          item_bytes: bytes of a value.
        """
        if values.is_virtual or values.external:
            raise Refused("its values are in other files, which are not read")
        if values.shape is None or values.ndim == 0:
            raise Refused(f"not an array with a row for each example; {PLAIN}")
        if holds_texts(values) and values.ndim != 1:
            raise Refused(f"expected a list of texts, found {values.shape}")
        created = values.id.get_create_plist()
        pipeline = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
        if pipeline not in PIPELINES:
            raise Refused(f"packed by filters {pipeline}; write it plain or with gzip")

        size = math.prod(values.shape) * item_bytes
        self.count(values, size)
        if values.chunks:
            self.require_chunks(values, pipeline, item_bytes)
            return
        stored = values.id.get_storage_size()
        if stored != size:
            raise Refused(f"promises {size} bytes, but {stored} are there")

    def require_chunks(self, values: Any, pipeline: list[int], item_bytes: int) -> None:
        """Refuse chunks that are missing, or of another size: HDF5 would fill them up."""
        chunk_bytes = math.prod(values.chunks) * item_bytes
        if chunk_bytes > MAX_CHUNK_BYTES:
            raise Refused(f"chunks of {chunk_bytes} bytes; at most {MAX_CHUNK_BYTES}")

        needed = 1
        for side, chunk_side in zip(values.shape, values.chunks, strict=True):
            needed *= -(-side // chunk_side)  # rounded up
        stored = values.id.get_num_chunks()
        if stored != needed:
            size = math.prod(values.shape) * item_bytes
            raise Refused(f"promises {size} bytes in {needed} chunks, but {stored} are there")
        if holds_texts(values) and pipeline not in TEXT_PIPELINES:
            raise Refused("texts that are packed other than with gzip are not read")

        chunks: list[Any] = []
        values.id.chunk_iter(chunks.append)
        for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_offset):
            self.start_step(chunk_bytes)
            max_packed = chunk_bytes + (chunk_bytes >> 8) + 1024
            if chunk.filter_mask or chunk.size > max_packed:
                raise Refused(
                    f"a chunk of {chunk.size} bytes, which should unpack to {chunk_bytes}"
                )
            size = chunk.size - (CHECKSUM_BYTES if CHECKSUM in pipeline else 0)
            if DEFLATE in pipeline:
                content = values.id.read_direct_chunk(chunk.chunk_offset)[1]
                size = len(zlib.decompressobj().decompress(content, chunk_bytes + 1))
            if size != chunk_bytes:
                raise Refused(f"a chunk does not unpack to {chunk_bytes} bytes")

    def count(self, values: Any, size: int) -> None:
        """Count bytes of an array, and refuse more than a file of this size may hold."""
        self.remaining -= size
        if self.remaining < 0:
            problem = f"unpacks, with the arrays before it, to more than {self.limit}"
            raise Refused(f"{values.dtype} {values.shape}: {problem}")


def member_of(group: Any, name: str, kind: str) -> Any:
    """Return a member of a group that is stored in the file itself, under its own name.

    Args:
      group: the group.
      name: the member's name.
      kind: `group` or `dataset`.

    Raises:
      Refused: for links by name, also into other files, and for members of another kind.
    """
    if name not in group.keys():  # noqa: SIM118 (a group resolves paths; its keys are names)
        raise Refused(f"no {name[:60]!a}; {PLAIN}")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise Refused(f"{name[:60]!a} is a link to another object, which is not followed")
    member = group[name]
    if not isinstance(member, h5py.Group if kind == "group" else h5py.Dataset):
        raise Refused(f"{name[:60]!a} is not a {kind}; {PLAIN}")
    return member


def holds_texts(values: Any) -> bool:
    """Return whether an array holds texts of any length."""
    text = h5py.check_string_dtype(values.dtype)
    return text is not None and text.length is None


def reason_of(error: Exception) -> str:
    """Return h5py's error in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def as_text(name: str | bytes) -> str:
    """Return a name as text; h5py returns names that are not UTF-8 as bytes."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def limit_memory(max_bytes: int) -> None:
    """Limit the memory of this process, and let it write no core file where it crashes."""
    for kind, size in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_CORE, 0)):
        hard_limit = resource.getrlimit(kind)[1]
        allowed = size if hard_limit == resource.RLIM_INFINITY else min(size, hard_limit)
        with contextlib.suppress(OSError, ValueError):  # the system does not have such a limit
            resource.setrlimit(kind, (allowed, hard_limit))


def replies(settings: dict[str, Any], questions: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield a reply to each question: `answer`; or, as the last one, `refused` with the reason."""
    try:
        signal.alarm(settings["seconds"])
        with (
            open(settings["arrays"], "wb", buffering=0) as arrays,
            h5py.File(
                settings["path"], "r", locking=False, rdcc_nbytes=2 * MAX_CHUNK_BYTES
            ) as file,
        ):
            reader = Reader(file, settings)
            for question in questions:
                reader.start_step()
                yield {"answer": reader.answer(json.loads(question), arrays)}
    except Refused as refused:
        yield {"refused": str(refused)}
    except MemoryError:
        yield {"refused": f"takes more than {settings['memory']} bytes of memory to be read"}
    except H5PY_ERRORS as error:
        yield {"refused": f"{NOT_SOUND}: {reason_of(error)}"}


def main() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the parent may have changed it
    settings = json.loads(sys.argv[1])
    limit_memory(settings["memory"])
    for reply in replies(settings, iter(sys.stdin.readline, "")):
        signal.alarm(0)  # until the next question
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
