"""The program that reads HDF5 files for `hdf5_files`; damaged ones never end in HDF5, or crash it.

`python hdf5_reader.py SETTINGS` answers questions, each a line of JSON on its standard input, with
a line on its standard output; arrays it writes into a file that it was given open. It imports h5py
and NumPy and nothing of fedsim, and holds no more memory than it may. The system ends it where it
does not get on: an alarm is set for each step.

HDF5 knows links to other files, data sets put together from other files, references to objects,
and filters that are loaded as programs; sizes in it are promises. All of that is looked at before
a value is read, and refused.
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

SHUFFLE, DEFLATE, CHECKSUM = 2, 1, 3  # numbers of the filters that HDF5 itself brings
CHECKSUM_BYTES = 4  # behind each chunk
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
MOST_CHUNK = 64 << 20  # bytes of a chunk, which is unpacked at once
BATCH_BYTES = 4 << 20  # of arrays after which an answer ends
TEXTS = 100  # that are read at a time: all of them may be one text, as long as the file
SLOW = 10 << 20  # bytes a second that a step reads or writes at least
FORM = "an examples group with a group of arrays for each client"
PLAIN = f"{FORM} is needed, as TensorFlow Federated writes it"
NOT_SOUND = "not a sound HDF5 file"
UNSOUND = (  # by which h5py tells of damage
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    zlib.error,
)


class Refused(Exception):
    """What a file holds is not read; the text says why."""


class Reader:
    """The examples of a file.

    Args:
      file: opened by h5py.
      settings: `most`, bytes that all that is read may unpack to; `limit`, the same in words;
        `seconds` for a step.
    """

    def __init__(self, file: Any, settings: dict[str, Any]):
        self.left = settings["most"]
        self.limit = settings["limit"]
        self.seconds = settings["seconds"]
        self.step()
        address_bytes, _ = file.id.get_create_plist().get_sizes()
        self.pointer_bytes = 4 + address_bytes + 4  # of a text: its length, and where it lies
        self.group = hard(file, "examples", "group")

    def step(self, size: int = 0) -> None:
        """Set the alarm for a step that reads so many bytes."""
        signal.alarm(self.seconds + size // SLOW)

    def answer(self, question: dict[str, Any], arrays: BinaryIO) -> Any:
        """What a question asks for.

        Raises:
          Refused: for what is no plain array, or would fill the memory.
        """
        if question["ask"] == "clients":
            return [as_text(name) for name in self.group]
        if question["ask"] == "fields":
            return sorted(as_text(name) for name in hard(self.group, question["client"], "group"))
        return self.batch(question["clients"], question["fields"], arrays)

    def batch(self, clients: list[str], fields: list[str], arrays: BinaryIO) -> list[list[bool]]:
        """Write fields of some clients into a file: of the first, and of others until it is full.

        Returns:
          For each client and field whether it is texts, of which two arrays are written: their
          lengths, and all of them in one.
        """
        arrays.seek(0)  # what stands there was read, and its pages are used again
        told: list[list[bool]] = []
        for client in clients:
            left = self.left
            try:
                values = [self.read(client, field) for field in fields]
            except (Refused, MemoryError):
                if not told:
                    raise
                self.left = left  # this client is asked for again, and refused then
                break
            for parts in values:
                self.write(parts, arrays)
            told.append([len(parts) == 2 for parts in values])
            if arrays.tell() >= BATCH_BYTES:
                break
        return told

    def write(self, parts: list[np.ndarray], arrays: BinaryIO) -> None:
        """Append arrays to a file."""
        for part in parts:
            self.step(part.nbytes)
            try:
                np.save(arrays, part, allow_pickle=False)
            except OSError as error:
                text = f"no room for its arrays: {error}; choose another folder by TMPDIR"
                raise Refused(text) from None

    def read(self, client: str, field: str) -> list[np.ndarray]:
        """A field of a client: numbers `[n, ...]`; or of texts the lengths `[n]`, and all bytes."""
        self.step()
        try:
            values = hard(hard(self.group, client, "group"), field, "dataset")
            return self.texts(values) if varies(values) else [self.numbers(values)]
        except Refused as refused:
            raise Refused(f"client {client!a}, {field}: {refused}") from None
        except UNSOUND as error:
            raise Refused(f"{NOT_SOUND}: client {client!a}, {field}: {reason_of(error)}") from None

    def numbers(self, values: Any) -> np.ndarray:
        """All numbers, or texts of one length, at once."""
        if values.dtype.kind not in "biufS":
            raise Refused(f"numbers or texts are needed, found {values.dtype}")
        self.require_content(values, values.dtype.itemsize)
        self.step(values.size * values.dtype.itemsize)
        return values[...]

    def texts(self, values: Any) -> list[np.ndarray]:
        """Texts, a few at a time, since each may be as long as the file."""
        self.require_content(values, self.pointer_bytes)
        texts: list[bytes] = []
        for first in range(0, len(values), TEXTS):
            self.step()
            some = values[first : first + TEXTS].tolist()
            self.take(values, sum(map(len, some)))
            texts += some
        lengths = np.array([len(text) for text in texts], np.int64)
        return [lengths, np.frombuffer(b"".join(texts), np.uint8)]

    def require_content(self, values: Any, item: int) -> None:
        """Refuse an array whose values lie elsewhere, are not there, or unpack to more.

        Args:
          values: the data set.
          item: bytes of a value.
        """
        if values.is_virtual or values.external:
            raise Refused("its values lie in other files, which are not read")
        if values.shape is None or values.ndim == 0:
            raise Refused(f"an array with a row for each example is needed; {PLAIN}")
        if varies(values) and values.ndim != 1:
            raise Refused(f"texts are needed one by one, found {values.shape}")
        created = values.id.get_create_plist()
        pipeline = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
        if pipeline not in PIPELINES:
            raise Refused(f"packed by filters {pipeline}; write it plain or with gzip")
        size = math.prod(values.shape) * item
        self.take(values, size)
        if values.chunks:
            self.require_chunks(values, pipeline, item)
        elif (stored := values.id.get_storage_size()) != size:
            raise Refused(f"promises {size} bytes, and {stored} are there")

    def require_chunks(self, values: Any, pipeline: list[int], item: int) -> None:
        """Refuse chunks that are not there, or of another size: HDF5 fills them up anyhow."""
        whole = math.prod(values.chunks) * item
        if whole > MOST_CHUNK:
            raise Refused(f"chunks of {whole} bytes; at most {MOST_CHUNK}")
        sides = zip(values.shape, values.chunks, strict=True)
        needed = math.prod(-(-side // chunk) for side, chunk in sides)
        there = values.id.get_num_chunks()
        if there != needed:
            size = math.prod(values.shape) * item
            raise Refused(f"promises {size} bytes in {needed} chunks, and {there} are there")
        if varies(values) and pipeline not in TEXT_PIPELINES:
            raise Refused("texts packed otherwise than with gzip are not read")
        chunks: list[Any] = []
        values.id.chunk_iter(chunks.append)
        for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_offset):
            self.step(whole)
            if chunk.filter_mask or chunk.size > whole + (whole >> 8) + 1024:
                raise Refused(f"a chunk of {chunk.size} bytes, which should unpack to {whole}")
            size = chunk.size - (CHECKSUM_BYTES if CHECKSUM in pipeline else 0)
            if DEFLATE in pipeline:
                content = values.id.read_direct_chunk(chunk.chunk_offset)[1]
                size = len(zlib.decompressobj().decompress(content, whole + 1))
            if size != whole:
                raise Refused(f"a chunk does not unpack to {whole} bytes")

    def take(self, values: Any, size: int) -> None:
        """Count bytes of an array, and refuse more than a file of this size may hold."""
        self.left -= size
        if self.left < 0:
            text = f"with those before it, unpacks to more than {self.limit}"
            raise Refused(f"{values.dtype} {values.shape}: {text}")


def hard(group: Any, name: str, kind: str) -> Any:
    """A member of a group that lies in the file itself, under its own name.

    Raises:
      Refused: for links by name, into other files too, and for what is no group, or no array.
    """
    if name not in group.keys():  # noqa: SIM118 (a group resolves paths; its keys are names)
        raise Refused(f"no {name[:60]!a}; {PLAIN}")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise Refused(f"{name[:60]!a} is a link to what lies elsewhere, which is not followed")
    member = group[name]
    if not isinstance(member, h5py.Group if kind == "group" else h5py.Dataset):
        raise Refused(f"{name[:60]!a} is no {kind}; {PLAIN}")
    return member


def varies(values: Any) -> bool:
    """Whether an array holds texts of any length."""
    text = h5py.check_string_dtype(values.dtype)
    return text is not None and text.length is None


def reason_of(error: Exception) -> str:
    """What h5py says against a file, in a line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def as_text(name: str | bytes) -> str:
    """A name; h5py gives one that is not UTF-8 as bytes."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def limit_memory(most: int) -> None:
    """Let this process hold so many bytes, and leave no image of it behind where it crashes."""
    for kind, size in ((resource.RLIMIT_AS, most), (resource.RLIMIT_CORE, 0)):
        hard_limit = resource.getrlimit(kind)[1]
        allowed = size if hard_limit == resource.RLIM_INFINITY else min(size, hard_limit)
        with contextlib.suppress(OSError, ValueError):  # of a system that knows no such limit
            resource.setrlimit(kind, (allowed, hard_limit))


def answers(settings: dict[str, Any], questions: Iterator[str]) -> Iterator[dict[str, Any]]:
    """What is said to each question; where a file is not read, `refused` and why, as the last."""
    try:
        signal.alarm(settings["seconds"])
        with (
            open(settings["arrays"], "wb", buffering=0) as arrays,
            h5py.File(settings["path"], "r", locking=False, rdcc_nbytes=2 * MOST_CHUNK) as file,
        ):
            reader = Reader(file, settings)
            for question in questions:
                reader.step()
                yield {"told": reader.answer(json.loads(question), arrays)}
    except Refused as refused:
        yield {"refused": str(refused)}
    except MemoryError:
        yield {"refused": f"takes more than {settings['memory']} bytes of memory to be read"}
    except UNSOUND as error:
        yield {"refused": f"{NOT_SOUND}: {reason_of(error)}"}


def main() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whatever the parent does about it
    settings = json.loads(sys.argv[1])
    limit_memory(settings["memory"])
    for answer in answers(settings, iter(sys.stdin.readline, "")):
        signal.alarm(0)  # until the next question
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
