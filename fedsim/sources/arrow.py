"""Arrow and Parquet files that may come from anybody, read in batches of rows; Arrow is mapped."""

import io
import math
import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsim.errors import DataError
from fedsim.sources.files import MAX_BYTES, MAX_RATIO, opened

FILE_MAGIC = b"ARROW1\0\0"  # starts an Arrow file; a stream and a list of its messages follow
BATCH_ROWS = 1024  # of a Parquet file, where a row may be large
SMALL_BATCH_ROWS = 1 << 16  # of a Parquet file whose rows are all small
BATCH_BYTES = 256 << 20  # of a batch of images, whatever its rows hold
NUMBERS = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE")  # types of Parquet
SMALL_TABLE_BYTES = 64 << 20  # unpacked; tables up to this size may have any ratio

# Indices of fields in the tables of Arrow's Message.fbs.
MESSAGE_HEADER = 2
DICTIONARY_DATA = 1
RECORD_COMPRESSION = 3


def require_pyarrow(kind: str) -> Any:
    """Return the package pyarrow.

    Args:
      kind: the kind of data set that needs it.

    Raises:
      DataError: where it is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        extra = "hf" if kind == "huggingface" else kind
        install = f"pip install 'fedsim-jax[{extra}]', or pip install pyarrow"
        raise DataError(f"{kind} needs pyarrow: {install}") from None
    return pyarrow


def schema_of(path: Path) -> Any:
    """Return the columns of a file, with the metadata of its writer.

    Raises:
      DataError: for an unsound file.
    """
    if path.suffix == ".parquet":
        with _parquet(path) as (table, _):
            return table.schema_arrow
    with _arrow(path) as (reader, _):
        return reader.schema


def batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a file as record batches of some columns.

    Texts of a Parquet file are encoded: a batch holds each text once, however often it occurs.

    Raises:
      DataError: for an unsound file, or one that lies about its size.
    """
    if path.suffix == ".parquet":
        yield from _parquet_batches(path, columns)
    else:
        yield from _arrow_batches(path, columns)


@contextmanager
def sound(source: str) -> Iterator[None]:
    """Turn the errors that pyarrow raises, of a dozen types, into one line.

    Args:
      source: what is read, as the error names it.

    Raises:
      DataError: saying that it is not sound.
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
        raise DataError(f"not a sound {source}: {reason}") from None


def require_size(metadata: Any, packed: int) -> None:
    """Refuse a Parquet file that would fill the memory, before any row is read.

    This counts the bytes that its row groups unpack to, where each value may be stored once, and 8
    bytes for each value of flat columns; lists may have more values, which are counted when they
    are read. The metadata of single columns are not read: where they are damaged, pyarrow ends the
    process.

    Args:
      metadata: the file's metadata.
      packed: the file's size in bytes.

    Raises:
      DataError: for a group of rows of more than 8 GiB, and for more than `MAX_RATIO` times the
        file.
    """
    sizes = _group_bytes(metadata)
    if min(sizes, default=0) < 0 or max(sizes, default=0) > MAX_BYTES:
        raise DataError(f"a group of rows unpacks to {max(sizes)} bytes; at most {MAX_BYTES}")
    values = metadata.num_rows * max(metadata.num_columns, 1)
    _require_ratio(max(sum(sizes), 8 * values), packed)


def text_columns(schema: Any) -> list[str]:
    """The columns of text; they are read with each text once, however often it occurs."""
    return [field.name for field in schema if str(field.type) in ("string", "large_string")]


@contextmanager
def _arrow(path: Path) -> Iterator[tuple[Any, int]]:
    """Open an Arrow file -> (reader of its record batches, its size in bytes)."""
    pa = require_pyarrow("huggingface")
    with opened(str(path), max_bytes=math.inf) as file, sound(f"{path.suffix[1:]} file"):
        # The map is closed when the last batch is freed.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        stream = _stream(pa, pa.py_buffer(content))
        yield pa.ipc.open_stream(pa.BufferReader(stream)), len(content)


@contextmanager
def _parquet(path: Path, encoded: Sequence[str] = ()) -> Iterator[tuple[Any, int]]:
    """Open a Parquet file -> (pyarrow's `ParquetFile`, its size in bytes).

    Args:
      path: the file.
      encoded: columns that are read with each text once.
    """
    require_pyarrow("parquet")
    from pyarrow.parquet import ParquetFile

    with opened(str(path), max_bytes=math.inf) as file, sound("parquet file"):
        size = file.seek(0, io.SEEK_END)
        table = ParquetFile(file, read_dictionary=encoded)
        require_size(table.metadata, size)
        yield table, size


def _arrow_batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    with _arrow(path) as (reader, size):
        rows = 0
        for batch in reader:
            rows += batch.num_rows
            if rows > 8 * size:  # a row of any column takes a bit at least
                raise DataError(f"promises {rows} rows in {size} bytes")
            batch = batch.select(list(columns))
            batch.validate(full=True)
            yield batch


def _stream(pa: Any, content: Any) -> Any:
    """The stream in an Arrow file; compressed messages are refused, since their size is unknown."""
    is_file = content[: len(FILE_MAGIC)].to_pybytes() == FILE_MAGIC
    stream = content.slice(len(FILE_MAGIC) if is_file else 0)
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        if message.type != "schema" and _is_compressed(message):
            raise DataError(
                "is compressed, unlike files of the package datasets; save it uncompressed"
            )
    return stream


def _is_compressed(message: Any) -> bool:
    """Whether the metadata of a message, a flatbuffer, say that its data are compressed."""
    metadata = message.metadata.to_pybytes()
    root = _follow(metadata, 0)
    header = _follow(metadata, _field(metadata, root, MESSAGE_HEADER))
    if message.type == "dictionary":
        header = _follow(metadata, _field(metadata, header, DICTIONARY_DATA))
    return _field(metadata, header, RECORD_COMPRESSION) != 0


def _field(flatbuffer: bytes, table: int, index: int) -> int:
    """The position of a field of a table in a flatbuffer; 0 where the table does not have it."""
    vtable = table - struct.unpack_from("<i", flatbuffer, table)[0]
    fields = struct.unpack_from("<H", flatbuffer, vtable)[0] // 2 - 2
    if index >= fields:
        return 0
    offset = struct.unpack_from("<H", flatbuffer, vtable + 4 + 2 * index)[0]
    return table + offset if offset else 0


def _follow(flatbuffer: bytes, position: int) -> int:
    """The position that the reference at a position of a flatbuffer points to."""
    return position + struct.unpack_from("<I", flatbuffer, position)[0]


def _parquet_batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of a Parquet file.

    Raises:
      DataError: where they unpack to more than `MAX_RATIO` times the file.
    """
    texts = text_columns(schema_of(path))
    unpacked = 0
    with _parquet(path, texts) as (table, size):
        rows = _rows_per_batch(table, columns, texts)
        for batch in table.iter_batches(rows, columns=columns):
            unpacked += sum(map(_bytes_of, batch.columns))
            _require_ratio(unpacked, size)
            yield batch


def _rows_per_batch(table: Any, columns: Sequence[str], texts: Sequence[str]) -> int:
    """The rows that take `BATCH_BYTES` at most, even if each is the largest value of its column.

    Numbers are small, and so are texts that are held once; images count, and lists, whose lengths
    are unknown.
    """
    metadata = table.metadata
    large = []
    for j in range(metadata.num_columns):
        column = table.schema.column(j)
        is_read = column.path in columns or column.path.split(".")[0] in columns
        if is_read and column.path not in texts:
            large.append(column)

    if any(column.physical_type == "BYTE_ARRAY" for column in large):
        largest_group = max([*_group_bytes(metadata), 1])
        return max(min(BATCH_ROWS, BATCH_BYTES // largest_group), 1)
    for column in large:
        if column.max_repetition_level or column.physical_type not in NUMBERS:
            return BATCH_ROWS
    return SMALL_BATCH_ROWS


def _group_bytes(metadata: Any) -> list[int]:
    """The bytes that each group of rows unpacks to."""
    return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]


def _bytes_of(column: Any) -> int:
    """The bytes of a column; of encoded text, the bytes that all rows have together."""
    import pyarrow as pa
    from pyarrow import compute

    functions: Any = compute  # its functions are made when it is imported
    if not pa.types.is_dictionary(column.type):
        return column.nbytes
    if not pa.types.is_string(column.type.value_type):
        return column.indices.nbytes
    lengths = functions.binary_length(column.dictionary).take(column.indices)
    total = functions.sum(lengths.cast(pa.int64())).as_py() or 0
    return column.indices.nbytes + total


def _require_ratio(unpacked: int, packed: int) -> None:
    """Refuse a file that unpacks to too many times its size."""
    if unpacked > max(MAX_RATIO * packed, SMALL_TABLE_BYTES):
        raise DataError(f"unpacks from {packed} to {unpacked} bytes; at most {MAX_RATIO}-fold")
