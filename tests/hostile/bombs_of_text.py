"""Bombs that are tables, texts, JSON and splits."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from hostile.bombs import bomb


def _table(folder: Path, columns: dict[str, Any], name: str, **options: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), folder / name, **options)


def _repeated(value: Any, times: int) -> Any:
    """A column that holds one value, which stands in the file once."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(times, np.int32)), pa.array([value]))


@bomb
def parquet_of_one_text(folder: Path) -> dict[str, Any]:
    rows = 40_000_000
    columns = {"text": _repeated("x" * 200, rows), "y": np.zeros(rows, np.int8)}
    _table(folder, columns, "t.parquet", row_group_size=rows)
    return {"kind": "parquet", "path": "t.parquet"}


@bomb
def parquet_of_one_long_text(folder: Path) -> dict[str, Any]:
    rows = 400_000
    columns = {"text": ["x" * 1_000_000] * 10 + ["y"] * rows, "y": np.zeros(rows + 10, np.int8)}
    _table(folder, columns, "t.parquet")
    return {"kind": "parquet", "path": "t.parquet"}


@bomb
def parquet_set_of_one_text(folder: Path) -> dict[str, Any]:
    import pyarrow as pa

    rows = 2_000_000
    texts = _repeated("x" * 1_000_000, rows).cast(pa.dictionary(pa.int32(), pa.string()))
    columns = {"a": np.zeros(rows), "text": texts, "label": np.zeros(rows, np.int8)}
    import pyarrow.parquet as pq

    table = pa.table(columns)
    writer = pq.ParquetWriter(folder / "train.parquet", table.schema, store_schema=False)
    writer.write_table(table)
    writer.close()
    return {"kind": "huggingface", "path": "."}


@bomb
def parquet_set_of_one_image(folder: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from encoded import FORM, encoded, image_column, typed

    noise = np.random.default_rng(0).integers(0, 256, (700, 700), np.uint8)
    image = encoded(noise)
    table = pa.table({"image": image_column([image] * 2000), "label": [0, 1] * 1000})
    pq.write_table(
        typed(table, {"image": FORM}), folder / "train.parquet", dictionary_pagesize_limit=1 << 30
    )
    return {"kind": "huggingface", "path": ".", "size": [8, 8]}


@bomb
def parquet_set_of_one_list(folder: Path) -> dict[str, Any]:
    import pyarrow as pa

    rows = 2000
    columns = {
        "x": pa.array([np.zeros(50_000, np.float32)] * rows),
        "label": np.zeros(rows, np.int8),
    }
    _table(folder, columns, "train.parquet")
    return {"kind": "huggingface", "path": "."}


@bomb
def leaf_of_brackets(folder: Path) -> dict[str, Any]:
    (folder / "train").mkdir()
    lists = b",".join([b"[]"] * 60_000_000)
    head = b'{"users": ["a"], "num_samples": [1], "user_data": {"a": {"y": [0], "x": ['
    (folder / "train" / "a.json").write_bytes(head + lists + b"]}}}")
    return {"kind": "leaf", "path": "."}


@bomb
def leaf_of_holes(folder: Path) -> dict[str, Any]:
    (folder / "train").mkdir()
    (folder / "train" / "a.json").write_bytes(b'{"users": [')
    os.truncate(folder / "train" / "a.json", 6 << 30)
    return {"kind": "leaf", "path": "."}


def _split(folder: Path, content: bytes) -> dict[str, Any]:
    (folder / "split").write_bytes(content)
    data = {"kind": "gaussian_blobs", "shape": [4], "classes": 3, "samples": 60}
    return {**data, "partition": {"kind": "file", "path": "split"}}


@bomb
def split_of_blank_lines(folder: Path) -> dict[str, Any]:
    return _split(folder, gzip.compress(b"sample,client\n" + b"\n" * 800_000_000, 1))


@bomb
def split_of_lists(folder: Path) -> dict[str, Any]:
    return _split(folder, b'{"0": [' + b",".join([b"[]"] * 60_000_000) + b"]}")


@bomb
def split_of_lists_packed(folder: Path) -> dict[str, Any]:
    return _split(folder, gzip.compress(b'{"0": [' + b",".join([b"[]"] * 60_000_000) + b"]}", 1))


@bomb
def csv_of_blank_lines(folder: Path) -> dict[str, Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"\r\n" * 400_000_000, 1))
    return {"kind": "csv", "path": "t.csv.gz"}


@bomb
def csv_in_one_line(folder: Path) -> dict[str, Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1" * 2_000_000_000, 1))
    return {"kind": "csv", "path": "t.csv.gz"}


@bomb
def csv_of_wrong_rows(folder: Path) -> dict[str, Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1\n" * 400_000_000, 1))
    return {"kind": "csv", "path": "t.csv.gz"}


@bomb
def sparse_csv(folder: Path) -> dict[str, Any]:
    (folder / "t.csv").write_bytes(b"a,y\n1,0\n")
    os.truncate(folder / "t.csv", 6 << 30)
    return {"kind": "csv", "path": "t.csv"}


@bomb
def text_of_one_word(folder: Path) -> dict[str, Any]:
    (folder / "t.txt.gz").write_bytes(gzip.compress(b"x" * 2_000_000_000, 1))
    return {"kind": "text", "path": "t.txt.gz", "tokens": "word"}


@bomb
def sparse_text(folder: Path) -> dict[str, Any]:
    (folder / "t.txt").write_bytes(b"to be")
    os.truncate(folder / "t.txt", 6 << 30)
    return {"kind": "text", "path": "t.txt"}


@bomb
def text_in_long_sequences(folder: Path) -> dict[str, Any]:
    (folder / "t.csv").write_text("text\n" + "ab\n" * 2_000_000)
    return {"kind": "text", "path": "t.csv", "column": "text", "length": 100_000}


@bomb
def trace_of_blank_lines(folder: Path) -> dict[str, Any]:
    content = b"client,seconds_per_step\n" + b"\n" * 800_000_000
    (folder / "trace.csv").write_bytes(gzip.compress(content, 1))
    return {
        "kind": "gaussian_blobs",
        "shape": [4],
        "samples": 60,
        "clients": 4,
        "fleet": {"speed": {"kind": "trace", "path": "trace.csv"}},
    }
