"""Bombs that are arrays and images."""

import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hostile.bombs import bomb


@bomb
def gzipped_idx(folder: Path) -> dict[str, Any]:
    images = (
        bytes([0, 0, 8, 3]) + np.array([1_000_000, 28, 28], ">u4").tobytes() + bytes(784_000_000)
    )
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


@bomb
def npz_of_zeros(folder: Path) -> dict[str, Any]:
    np.savez_compressed(
        folder / "w.npz", x=np.zeros((10_000_000, 40), np.float32), y=np.zeros(10_000_000, np.int8)
    )
    return {"kind": "npz", "path": "w.npz"}


@bomb
def npz_of_holes(folder: Path) -> dict[str, Any]:
    size = 6 << 30
    with zipfile.ZipFile(folder / "w.npz", "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "|u1", "fortran_order": False, "shape": (size, 1)}
        )
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    os.truncate(folder / "w.npz", size)
    return {"kind": "npz", "path": "w.npz"}
