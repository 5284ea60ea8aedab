"""Files that are small, or take no room, and would take gigabytes to read.

As a program (`python -m hostile.bombs SCENARIO`, in its own process) it reads and builds a scenario
as the command does, and prints a line of JSON: how it ended, the message, processor seconds, and
bytes used beyond those at the start.
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
from hostile.confinement import forget_peak, peak

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.errors import DataError, ScenarioError, exit_code
from fedsim.machine import memory_now
from fedsim.scenario import read

MAKERS: dict[str, Callable[[Path], dict[str, Any]]] = {}
SPACE = 12 * 10**9  # bytes of address space: a bomb that goes off ends its reader alone
HOLES = 6 << 30  # bytes of a file that takes no room


def bomb(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    """Register what writes a bomb to a folder and gives the data section that names it."""
    MAKERS[make.__name__] = make
    return make


@bomb
def gzipped_idx(folder: Path) -> dict[str, Any]:
    count = np.array([1_000_000], ">u4").tobytes()
    sides = np.array([28, 28], ">u4").tobytes()
    images = bytes([0, 0, 8, 3]) + count + sides + bytes(784_000_000)
    labels = bytes([0, 0, 8, 1]) + count + bytes(1_000_000)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return {"kind": "idx", "path": "."}


@bomb
def npz_of_holes(folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(folder / "w.npz", "w") as archive:
        header = io.BytesIO()
        shape = {"descr": "|u1", "fortran_order": False, "shape": (HOLES, 1)}
        np.lib.format.write_array_header_1_0(header, shape)
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    os.truncate(folder / "w.npz", HOLES)
    return {"kind": "npz", "path": "w.npz"}


@bomb
def split_of_lists(folder: Path) -> dict[str, Any]:
    (folder / "split").write_bytes(b'{"0": [' + b",".join([b"[]"] * 60_000_000) + b"]}")
    data = {"kind": "gaussian_blobs", "shape": [4], "classes": 3, "samples": 60}
    return {**data, "partition": {"kind": "file", "path": "split"}}


@bomb
def csv_in_one_line(folder: Path) -> dict[str, Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1" * 400_000_000, 1))
    return {"kind": "csv", "path": "t.csv.gz"}


@bomb
def text_in_long_sequences(folder: Path) -> dict[str, Any]:
    (folder / "t.csv").write_text("text\n" + "ab\n" * 2_000_000)
    return {"kind": "text", "path": "t.csv", "column": "text", "length": 100_000}


def scenario_of(name: str, folder: Path) -> Path:
    """Write a bomb, and a scenario that names it."""
    path = folder / "scenario.json.yaml"
    path.write_text(json.dumps({"name": "x", "rounds": 1, "data": MAKERS[name](folder)}))
    return path


def main(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    forget_peak()
    held = memory_now()
    start = time.process_time()
    code, said = 0, ""
    try:
        scenario = read(path)
        with numerics(scenario) as devices:
            build(scenario, devices=devices[:1])
    except (ScenarioError, DataError) as error:
        code, said = exit_code(error), str(error)
    seconds = time.process_time() - start
    print(json.dumps({"code": code, "said": said, "seconds": seconds, "bytes": peak() - held}))


if __name__ == "__main__":
    main(sys.argv[1])
