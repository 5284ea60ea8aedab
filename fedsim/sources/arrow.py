"""Tables of Arrow and Parquet files that may be anybody's, a batch of rows at a time; Arrow files stay in the file."""

import math
import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsim.errors import DataError
from fedsim.sources.files import MOST_BYTES, MOST_RATIO, opened

FILE_MAGIC = b"ARROW1\0\0"  # of an Arrow file: a stream stands behind it, and a list of its parts
ROWS = 1024  # of a Parquet file that are read at a time, where a row may be large
SMALL_ROWS = 1 << 16  # and where all are small
BATCH_BYTES = 256 << 20  # of a batch of images, whatever its rows hold
NUMBERS = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE")  # types of Parquet
SMALL_TABLE_BYTES = 64 << 20  # unpacked, for what no ratio is asked
HEADER = 2  # place in the table Message of Arrow's Message.fbs
DATA = 1  # in DictionaryBatch
COMPRESSION = 3  # and in RecordBatch


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

    Texts of a Parquet file are encoded: each is in a batch once, however often it stands there.

    Raises:
      DataError: for what is no sound file, or one that lies about its size.
    """
    if path.suffix == ".parquet":
        yield from _of_parquet(path, columns)
        return
    with _read(path) as (table, size):
        rows = 0
        for batch in table:
            rows += batch.num_rows
            if rows > 8 * size:  # a row of any column that is read takes a bit at least
                raise DataError(f"promises {rows} rows in {size} bytes")
            batch = batch.select(list(columns))
            batch.validate(full=True)
            yield batch


@contextmanager
def _read(path: Path, texts: Sequence[str] = ()) -> Iterator[tuple[Any, int]]:
    """A reader of the file, and its bytes; whatever pyarrow says against it is one line.

    Args:
      path: of the file.
      texts: columns of a Parquet file that are read with each text once.
    """
    pa = require_pyarrow("parquet" if path.suffix == ".parquet" else "huggingface")
    from pyarrow.parquet import ParquetFile

    with opened(str(path), most=math.inf) as file, sound(f"{path.suffix[1:]} file"):
        if path.suffix == ".parquet":
            size = file.seek(0, 2)
            table = ParquetFile(file, read_dictionary=texts)
            require_size(table.metadata, size)
            yield table, size
            return
        content = mmap.mmap(
            file.fileno(), 0, access=mmap.ACCESS_READ
        )  # closed when the last batch is gone
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
    except (
        pa.ArrowException,
        BufferError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        raise DataError(f"not a sound {what}: {reason}") from None


def _stream(pa: Any, content: Any) -> Any:
    """The stream in an Arrow file, none of whose parts is packed: what it would unpack to, nobody can bound beforehand."""
    stream = content.slice(8 if content[:8].to_pybytes() == FILE_MAGIC else 0)
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        if message.type != "schema" and _packed(message.metadata.to_pybytes(), message.type):
            raise DataError(
                "is compressed, and the package datasets writes no such files; save it without"
            )
    return stream


def _packed(metadata: bytes, kind: str) -> bool:
    """Whether the header of a message, a flatbuffer, says that its data are compressed."""

    def field(table: int, place: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        known = struct.unpack_from("<H", metadata, vtable)[0] // 2 - 2
        offset = (
            struct.unpack_from("<H", metadata, vtable + 4 + 2 * place)[0] if place < known else 0
        )
        return table + offset if offset else 0

    def behind(place: int) -> int:
        return place + struct.unpack_from("<I", metadata, place)[0]

    table = behind(field(behind(0), HEADER))
    if kind == "dictionary":
        table = behind(field(table, DATA))
    return bool(field(table, COMPRESSION))


def require_size(metadata: Any, packed: int) -> None:
    """Refuse a Parquet file that would fill the memory, before any row is read.

    Counted are the bytes that its row groups unpack to, which may hold each value once, and 8 bytes for each value of
    flat columns; lists may have more, which are counted when they are read. The metadata of single columns are not
    looked at: where they are damaged, pyarrow ends the process.

    Args:
      metadata: of the file.
      packed: bytes of the file.

    Raises:
      DataError: for a group of rows of more than 8 GiB, and for more than `MOST_RATIO` times the file.
    """
    sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    if min(sizes, default=0) < 0 or max(sizes, default=0) > MOST_BYTES:
        raise DataError(f"a group of rows unpacks to {max(sizes)} bytes; at most {MOST_BYTES}")
    values = metadata.num_rows * max(metadata.num_columns, 1)
    _require_ratio(max(sum(sizes), 8 * values), packed)


def texts_of(schema: Any) -> list[str]:
    """Names of the columns of text, which are read with each text once, however often it stands there."""
    return [field.name for field in schema if str(field.type) in ("string", "large_string")]


def _of_parquet(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of a Parquet file.

    Raises:
      DataError: where they unpack to more than `MOST_RATIO` times the file.
    """
    texts = texts_of(schema_of(path))
    unpacked = 0
    with _read(path, texts) as (table, size):
        for batch in table.iter_batches(_rows_at_a_time(table, columns, texts), columns=columns):
            unpacked += sum(map(_bytes_of, batch.columns))
            _require_ratio(unpacked, size)
            yield batch


def _rows_at_a_time(table: Any, columns: Sequence[str], texts: Sequence[str]) -> int:
    """As many as hold `BATCH_BYTES` at most, though each may be the largest value of its column.

    Numbers, and the texts of which each is held once, are small anyway; it is images that count,
    and lists, whose lengths nobody knows.
    """
    metadata = table.metadata
    parts = [table.schema.column(j) for j in range(metadata.num_columns)]
    read = [one for one in parts if one.path in columns or one.path.split(".")[0] in columns]
    large = [one for one in read if one.path not in texts]
    if any(one.physical_type == "BYTE_ARRAY" for one in large):
        sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        return max(min(ROWS, BATCH_BYTES // max([*sizes, 1])), 1)
    lists = [one for one in large if one.max_repetition_level or one.physical_type not in NUMBERS]
    return ROWS if lists else SMALL_ROWS


def _bytes_of(column: Any) -> int:
    """Bytes of a column, of text those that all rows have together."""
    import pyarrow as pa
    from pyarrow import compute

    functions: Any = compute  # which are made when it is imported
    if not pa.types.is_dictionary(column.type):
        return column.nbytes
    if not pa.types.is_string(column.type.value_type):
        return column.indices.nbytes
    lengths = functions.binary_length(column.dictionary).take(column.indices)
    return column.indices.nbytes + (functions.sum(lengths.cast(pa.int64())).as_py() or 0)


def _require_ratio(unpacked: int, packed: int) -> None:
    """Refuse what unpacks to too many times its size."""
    if unpacked > max(MOST_RATIO * packed, SMALL_TABLE_BYTES):
        raise DataError(f"unpacks from {packed} to {unpacked} bytes; at most {MOST_RATIO}-fold")
