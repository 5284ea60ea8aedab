"""Files of a stranger's that are small, or take no room, and would take gigabytes or minutes to read.

As a program (`python -m hostile.bombs SCENARIO`, in a process of its own) it reads and builds a scenario as the command does,
and prints a line of JSON: how it ended, what was said, processor seconds, and bytes held beyond those at the start.
"""

import gzip
import io
import json
import os
import resource
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MAKERS: dict[str, Callable[[Path], dict[str, Any]]] = {}
SPACE = 12 * 10**9  # bytes of address space of a reader: a bomb that goes off ends it, not the machine


def bomb(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    """Register what writes a bomb to a folder and gives the data section that names it."""
    MAKERS[make.__name__] = make
    return make


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
    pq.write_table(typed(table, {"image": FORM}), folder / "train.parquet", dictionary_pagesize_limit=1 << 30)
    return {"kind": "huggingface", "path": ".", "size": [8, 8]}


@bomb
def parquet_set_of_one_list(folder: Path) -> dict[str, Any]:
    import pyarrow as pa

    rows = 2000
    columns = {"x": pa.array([np.zeros(50_000, np.float32)] * rows), "label": np.zeros(rows, np.int8)}
    _table(folder, columns, "train.parquet")
    return {"kind": "huggingface", "path": "."}


@bomb
def gzipped_idx(folder: Path) -> dict[str, Any]:
    images = bytes([0, 0, 8, 3]) + np.array([1_000_000, 28, 28], ">u4").tobytes() + bytes(784_000_000)
    labels = bytes([0, 0, 8, 1]) + np.array([1_000_000], ">u4").tobytes() + bytes(1_000_000)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return {"kind": "idx", "path": "."}


@bomb
def sparse_idx(folder: Path) -> dict[str, Any]:
    for name, header, size in (
        ("train-images-idx3-ubyte", [8_000_000, 28, 28], 6_272_000_000),
        ("train-labels-idx1-ubyte", [8_000_000], 8_000_000),
    ):
        start = bytes([0, 0, 8, len(header)]) + np.array(header, ">u4").tobytes()
        (folder / name).write_bytes(start)
        os.truncate(folder / name, len(start) + size)
    return {"kind": "idx", "path": "."}


def _with_images(folder: Path, image: bytes, suffix: str, copies: int = 1) -> dict[str, Any]:
    for label in "ab":
        (folder / label).mkdir()
        for i in range(copies):
            (folder / label / f"{i}{suffix}").write_bytes(image)
    return {"kind": "imagefolder", "path": ".", "size": [8, 8]}


@bomb
def jpeg_of_many_scans(folder: Path) -> dict[str, Any]:
    from PIL import Image

    file = io.BytesIO()
    Image.new("L", (6000, 6000)).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    scans = [place for place in range(len(content)) if content[place : place + 2] == b"\xff\xda"]
    last = content[scans[-1] : -2]
    return _with_images(folder, content[:-2] + last * 3000 + content[-2:], ".jpg")


@bomb
def many_pngs_of_nothing(folder: Path) -> dict[str, Any]:
    from encoded import png_of

    rows = (b"\0" + bytes(9000)) * 9000
    return _with_images(folder, png_of(9000, 9000, rows), ".png", copies=100)


@bomb
def gif_of_one_colour(folder: Path) -> dict[str, Any]:
    from PIL import Image

    file = io.BytesIO()
    Image.new("P", (9000, 9000)).save(file, "GIF")
    return _with_images(folder, file.getvalue(), ".gif", copies=100)


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


@bomb
def sparse_cifar10(folder: Path) -> dict[str, Any]:
    for i in range(1, 6):
        (folder / f"data_batch_{i}.bin").touch()
        os.truncate(folder / f"data_batch_{i}.bin", 3073 * 2_000_000)
    return {"kind": "cifar10", "path": "."}


@bomb
def sparse_cifar100(folder: Path) -> dict[str, Any]:
    (folder / "train.bin").touch()
    os.truncate(folder / "train.bin", 3074 * 2_000_000)
    return {"kind": "cifar100", "path": "."}


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
def npz_of_zeros(folder: Path) -> dict[str, Any]:
    np.savez_compressed(folder / "w.npz", x=np.zeros((10_000_000, 40), np.float32), y=np.zeros(10_000_000, np.int8))
    return {"kind": "npz", "path": "w.npz"}


@bomb
def npz_of_holes(folder: Path) -> dict[str, Any]:
    size = 6 << 30
    with zipfile.ZipFile(folder / "w.npz", "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (size, 1)})
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    os.truncate(folder / "w.npz", size)
    return {"kind": "npz", "path": "w.npz"}


@bomb
def hdf5_of_zeros(folder: Path) -> dict[str, Any]:
    from tff_sets import written

    pixels = np.zeros((200_000, 28, 28), np.float32)
    written(
        folder / "set_train.h5", {"a": {"pixels": pixels, "label": np.zeros(200_000, np.int32)}}, compression="gzip"
    )
    return {"kind": "tff_hdf5", "path": "."}


@bomb
def trace_of_blank_lines(folder: Path) -> dict[str, Any]:
    content = b"client,seconds\n" + b"\n" * 800_000_000
    (folder / "trace.csv").write_bytes(gzip.compress(content, 1))
    return {
        "kind": "gaussian_blobs",
        "shape": [4],
        "samples": 60,
        "fleet": {"speed": {"kind": "trace", "path": "trace.csv"}},
    }


def scenario_of(name: str, folder: Path) -> Path:
    """Write a bomb, and a scenario that names it."""
    data = MAKERS[name](folder)
    fleet = data.pop("fleet", {})
    path = folder / "scenario.json.yaml"
    path.write_text(json.dumps({"name": "x", "rounds": 1, "data": data, **({"fleet": fleet} if fleet else {})}))
    return path


def main(path: str) -> None:
    from hostile.numbers import OURS, forget_peak, peak

    from fedsim.build import build
    from fedsim.build.experiment import numerics
    from fedsim.errors import exit_code
    from fedsim.machine import memory_now
    from fedsim.scenario import read

    resource.setrlimit(resource.RLIMIT_AS, (SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    forget_peak()
    held, start = memory_now(), time.process_time()
    code, said = 0, ""
    try:
        scenario = read(path)
        with numerics(scenario) as devices:
            build(scenario, devices=devices[:1])
    except OURS as error:
        code, said = exit_code(error), str(error)
    seconds = time.process_time() - start
    print(json.dumps({"code": code, "said": said, "seconds": seconds, "bytes": peak() - held}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
