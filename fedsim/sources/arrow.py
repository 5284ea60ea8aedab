"""Tables of Arrow and Parquet files that may be anybody's, a batch of rows at a time; Arrow files stay in the file."""

import math
import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsim.errors import DataError
from fedsim.sources.files import MOST_BYTES, opened

FILE_MAGIC = b"ARROW1\0\0"  # of an Arrow file: a stream stands behind it, and a list of its parts
ROWS = 1024  # of a Parquet file that are read at a time
HEADER, DATA, COMPRESSION = (
    2,
    1,
    3,
)  # places in the tables Message, DictionaryBatch and RecordBatch of Arrow's Message.fbs


def require_pyarrow(kind: str) -> Any:
    """The package pyarrow.

    Raises:
      DataError: where it is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        extra = {"huggingface": "hf"}.get(kind, kind)
        text = f"{kind} needs pyarrow: pip install 'fedsim-jax[{extra}]', or pip install pyarrow"
        raise DataError(text) from None
    return pyarrow


def schema_of(path: Path) -> Any:
    """The columns of a file, with what their writer said about them.

    Raises:
      DataError: for what is no sound file.
    """
    with _read(path) as (table, _):
        return table.schema_arrow if path.suffix == ".parquet" else table.schema


def batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of a file, some at a time, as record batches of these columns.

    Raises:
      DataError: for what is no sound file, or one that lies about its size.
    """
    with _read(path) as (table, size):
        if path.suffix == ".parquet":
            yield from table.iter_batches(ROWS, columns=list(columns))
            return
        rows = 0
        for batch in table:
            rows += batch.num_rows
            if rows > 8 * size:  # a row of any column that is read takes a bit at least
                raise DataError(f"promises {rows} rows in {size} bytes")
            batch = batch.select(list(columns))
            batch.validate(full=True)
            yield batch


@contextmanager
def _read(path: Path) -> Iterator[tuple[Any, int]]:
    """A reader of the file, and its bytes; whatever pyarrow says against it is one line."""
    pa = require_pyarrow("parquet" if path.suffix == ".parquet" else "huggingface")
    from pyarrow.parquet import ParquetFile

    with opened(str(path), most=math.inf) as file, sound(f"{path.suffix[1:]} file"):
        if path.suffix == ".parquet":
            table = ParquetFile(file)
            _require_size(table.metadata)
            yield table, 0
            return
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed when the last batch is gone
        stream = _stream(pa, pa.py_buffer(content))
        yield pa.ipc.open_stream(pa.BufferReader(stream)), len(content)


@contextmanager
def sound(what: str) -> Iterator[None]:
    """Whatever pyarrow says against tables is one line, in a dozen types of exceptions.

    Raises:
      DataError: saying that it is not a sound one.
    """
    pa = require_pyarrow("huggingface")
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, BufferError, LookupError, OSError, TypeError, ValueError, struct.error) as error:
        reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        raise DataError(f"not a sound {what}: {reason}") from None


def _stream(pa: Any, content: Any) -> Any:
    """The stream in an Arrow file, none of whose parts is packed: what it would unpack to, nobody can bound beforehand."""
    stream = content.slice(8 if content[:8].to_pybytes() == FILE_MAGIC else 0)
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        if message.type != "schema" and _packed(message.metadata.to_pybytes(), message.type):
            raise DataError("is compressed, and the package datasets writes no such files; save it without")
    return stream


def _packed(metadata: bytes, kind: str) -> bool:
    """Whether the header of a message, a flatbuffer, says that its data are compressed."""

    def field(table: int, place: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        known = struct.unpack_from("<H", metadata, vtable)[0] // 2 - 2
        offset = struct.unpack_from("<H", metadata, vtable + 4 + 2 * place)[0] if place < known else 0
        return table + offset if offset else 0

    def behind(place: int) -> int:
        return place + struct.unpack_from("<I", metadata, place)[0]

    table = behind(field(behind(0), HEADER))
    if kind == "dictionary":
        table = behind(field(table, DATA))
    return bool(field(table, COMPRESSION))


def _require_size(metadata: Any) -> None:
    """Refuse a group of rows that would fill the memory, and more rows than there can be, before any is read."""
    sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    size = max([*sizes, 8 * metadata.num_rows])
    if size > MOST_BYTES or min(sizes, default=0) < 0:
        raise DataError(f"unpacks to {size} bytes; at most {MOST_BYTES}")
