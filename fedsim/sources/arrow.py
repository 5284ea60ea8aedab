"""Arrow and Parquet files, read by pyarrow; Arrow is mapped."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.files import opened, sound

FILE_MAGIC = b"ARROW1\0\0"  # starts an Arrow file; others are streams
CELL_BYTES = 16  # of memory that a cell needs at least: as it is read, and as a feature
Shards = dict[str, Path]  # the files of a split, or of several, by name


def schema_of(path: Path) -> Any:
    """Return the columns of a file, with the metadata of its writer."""
    with opened(str(path), max_bytes=math.inf) as file, sound(f"{path.suffix[1:]} file"):
        if path.suffix == ".parquet":
            from pyarrow.parquet import ParquetFile

            return ParquetFile(file).schema_arrow
        return _reader(path, file).schema


def table_of(path: Path, columns: Sequence[str]) -> Any:
    """Return some columns of a file."""
    with opened(str(path), max_bytes=math.inf) as file, sound(f"{path.suffix[1:]} file"):
        if path.suffix == ".parquet":
            return parquet_in(file, columns)
        table = _reader(path, file).read_all().select(list(columns))
        table.validate(full=True)
        return table


def one_schema(shards: Shards) -> Any:
    """Return the columns of all files, which may not differ."""
    schemas = {name: schema_of(path) for name, path in shards.items()}
    first, schema = next(iter(schemas.items()))
    for name, columns in schemas.items():
        if len(set(columns.names)) < len(columns.names):
            raise DataError(f"{name}: two columns have the same name")
        if not schema.equals(columns):
            raise DataError(f"{name}: other columns than in {first}")
    return schema


def rows_of(shards: Shards, columns: Sequence[str]) -> Any:
    """Return some columns of several files, without the metadata of pandas."""
    import pyarrow as pa

    tables = [table_of(path, columns).replace_schema_metadata(None) for path in shards.values()]
    return pa.concat_tables(tables)


def parquet_in(
    file: BinaryIO, columns: Sequence[str] | None = None, encoded: Sequence[str] = ()
) -> Any:
    """Return the table in a Parquet file: some columns, or all, if it fits into memory.

    Of the columns of text in `encoded`, each text is held once, however often it occurs.
    """
    from pyarrow.parquet import ParquetFile

    with sound("parquet file"):
        reader = ParquetFile(file, read_dictionary=encoded)
        metadata = reader.metadata
        groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        cells = metadata.num_rows * metadata.num_columns
        require_memory(table=max(sum(groups), CELL_BYTES * cells))
        table = reader.read(columns)
        table.validate(full=True)  # texts are UTF-8, for one
        return table


def _reader(path: Path, file: BinaryIO) -> Any:
    import pyarrow as pa

    is_file = file.read(len(FILE_MAGIC)) == FILE_MAGIC
    source = pa.memory_map(str(path))
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
