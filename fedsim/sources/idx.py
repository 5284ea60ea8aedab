"""The idx format: MNIST, Fashion-MNIST, KMNIST, EMNIST as they are distributed, packed by gzip or not."""

import gzip
import math
import os
import re
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.files import MOST_BYTES, MOST_RATIO, SMALL_BYTES, Name, opened
from fedsim.sources.folders import chosen_split, folder_files
from fedsim.sources.mapped import STAYS_BYTES

TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
FILE = re.compile(
    r"(?:(?P<split>[\w-]+)-)?(?P<part>train|t10k|test)[-.](?P<content>images|labels)[-.]idx\d-ubyte(?:\.gz)?"
)
WHERE = (
    "the four files of MNIST are train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and "
    "t10k-labels-idx1-ubyte.gz (yann.lecun.com/exdb/mnist); those of Fashion-MNIST (github.com/zalandoresearch/fashion-mnist) "
    "and EMNIST (nist.gov) are alike"
)


@dataset
def idx(path: Name, split: str | None = None, sha256: str | None = None) -> Arrays:
    """Images and labels in idx files, as MNIST, Fashion-MNIST, KMNIST and EMNIST come: pixels over 255, `[28, 28, 1]`.

    The files keep their names: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, and `t10k-…` or `test-…` where there
    is a test set; `.gz` behind, or not. EMNIST's have a split in front, `emnist-letters-train-…`; its images are stored
    turned over their diagonal, and stay so. Images that are not packed stay in their file from 64 MiB on, read when a round
    needs them.

    Args:
      path: of the folder that they lie in, from the scenario's folder, the working directory or a `--data-root`.
      split: what stands in front of `-train-images-…`, where a folder holds several sets.
      sha256: of these files together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: for a folder without such files, or files whose headers do not tell the truth.

    References:
      LeCun, Cortes, Burges, The MNIST database; Cohen et al. 2017, EMNIST, arXiv:1702.05373.
    """
    with folder_files(path, sha256) as files:
        parts = _parts(files, split)
        x, y = _pair(parts, "train")
        x_test, y_test = (
            _pair(parts, "test") if any(part == "test" for part, _ in parts) else (None, None)
        )
        return Arrays(x, y, None, x_test, y_test, scale=1 / 255 if x.dtype == np.uint8 else 1.0)


def _parts(files: dict[str, Path], split: str | None) -> dict[tuple[str, str], Path]:
    """(train or test, images or labels) -> file; of one split, and the unpacked file where both are there."""
    named = [(match, path) for name, path in files.items() if (match := FILE.fullmatch(name))]
    splits = sorted({match["split"] or "" for match, _ in named})
    if not named:
        raise DataError(f"no idx files; {WHERE}")
    chosen = chosen_split(splits, split)
    matches = [(match, path) for match, path in named if (match["split"] or "") == chosen]
    matches.sort(key=lambda one: one[1].suffix != ".gz")
    return {
        ("train" if match["part"] == "train" else "test", match["content"]): path
        for match, path in matches
    }


def _pair(parts: dict[tuple[str, str], Path], part: str) -> tuple[np.ndarray, np.ndarray]:
    missing = [content for content in ("images", "labels") if (part, content) not in parts]
    if missing:
        raise DataError(f"no {part} {missing[0]}; {WHERE}")
    images, labels = (read_idx(parts[part, content]) for content in ("images", "labels"))
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{parts[part, 'labels'].name}: whole numbers [n] are needed, found {labels.dtype} {labels.shape}"
        )
    if len(images) != len(labels):
        raise DataError(f"{len(images)} {part} images and {len(labels)} labels")
    return images[..., None] if images.ndim == 3 else images, labels.astype(np.int64)


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file, packed by gzip or not.

    Raises:
      DataError: for another file, or a header that promises more or less than follows.
    """
    with opened(str(path)) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        most = max(MOST_RATIO * os.fstat(raw.fileno()).st_size, SMALL_BYTES)
        try:
            return _array(file, min(most, MOST_BYTES))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"not a sound gzip file: {error}") from None


def _array(file: BinaryIO, most: int) -> np.ndarray:
    """The array, of so many bytes at most."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES or not 1 <= magic[3] <= 8:
        raise DataError("not an idx file: it starts otherwise")
    dtype, sides = np.dtype(TYPES[magic[2]]), magic[3]
    header = file.read(4 * sides)
    if len(header) < 4 * sides:
        raise DataError("ends within its header")
    shape = tuple(int(side) for side in np.frombuffer(header, ">u4"))
    size = math.prod(shape) * dtype.itemsize
    if size > most:
        raise DataError(
            f"its header promises {shape}, {size} bytes; a file of its size holds at most {most}"
        )
    stays = not isinstance(file, gzip.GzipFile) and dtype.itemsize == 1 and size >= STAYS_BYTES
    if stays and os.fstat(file.fileno()).st_size - file.tell() == size:
        return np.memmap(file, dtype, "r", file.tell(), shape)  # pyright: ignore[reportCallIssue,reportArgumentType]
    content = np.empty(size, np.uint8)  # pages that nothing is written to take no memory
    read = 0
    while piece := file.read(min(size - read, 1 << 24)):
        content[read : read + len(piece)] = np.frombuffer(piece, np.uint8)
        read += len(piece)
    if read < size or file.read(1):
        follows = "more" if read == size else f"{read} bytes"
        raise DataError(
            f"its header promises {dtype.name} {shape}, {size} bytes, but {follows} follow"
        )
    return content.view(dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
