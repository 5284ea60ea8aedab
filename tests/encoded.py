"""Encoded images, and folders as `datasets` and its hub write them, made by pyarrow alone."""

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

FORM = {"_type": "Image"}


def encoded(pixels: np.ndarray, form: str = "PNG", **options: Any) -> bytes:
    """An image in a file format, from bytes `[height, width]` or `[height, width, 3]`."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG."""
    checksum = zlib.crc32(kind + data)
    return len(data).to_bytes(4, "big") + kind + data + checksum.to_bytes(4, "big")


def png_of(width: int, height: int, body: bytes = b"") -> bytes:
    """A grey PNG of 8 bits whose header claims any size."""
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    end = chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + end


def image_column(images: list[bytes | None]) -> pa.Array:
    """Images as `datasets` stores them."""
    structs = [{"bytes": image, "path": "a.png" if image is None else None} for image in images]
    return pa.array(structs, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def typed(table: pa.Table, types: dict[str, Any]) -> pa.Table:
    """A table with the metadata that `datasets` writes about its columns."""
    features = {name: {"dtype": "x", "_type": "Value"} for name in table.column_names} | types
    info = {"info": {"features": features}}
    return table.replace_schema_metadata({"huggingface": json.dumps(info)})


def classes(*names: str) -> dict[str, Any]:
    return {"names": list(names), "_type": "ClassLabel"}


def streamed(
    table: pa.Table, path: Path, file: bool = False, rows: int = 3, **options: Any
) -> None:
    """Write an Arrow stream, in batches of `rows`, or an Arrow file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with (
        pa.OSFile(str(path), "wb") as sink,
        new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer,
    ):
        writer.write_table(table, max_chunksize=rows)


def saved(table: pa.Table, folder: Path, shards: int = 1, **options: Any) -> str:
    """Write what `Dataset.save_to_disk` writes."""
    step = -(-table.num_rows // shards)
    names = [f"data-{i:05}-of-{shards:05}.arrow" for i in range(shards)]
    for i, name in enumerate(names):
        streamed(table.slice(i * step, step), folder / name, **options)
    files = [{"filename": name} for name in names]
    state = {"_data_files": files, "_fingerprint": "0", "_split": None}
    info = json.loads(table.schema.metadata[b"huggingface"])["info"]
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"citation": "", **info}))
    return str(folder)


def saved_splits(tables: dict[str, pa.Table], folder: Path, **options: Any) -> str:
    """Write what `DatasetDict.save_to_disk` writes."""
    for split, table in tables.items():
        saved(table, folder / split, **options)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(tables)}))
    return str(folder)


def parquets(
    tables: dict[str, pa.Table], folder: Path, name: str = "data/{}-00000-of-00001.parquet"
) -> str:
    """Write a folder as on the hub."""
    for split, table in tables.items():
        path = folder / name.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    return str(folder)
