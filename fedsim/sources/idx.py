"""The idx format of MNIST, Fashion-MNIST, KMNIST and EMNIST, gzipped or not."""

import math
import re
from pathlib import Path

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.files import Name, opened, unpacked
from fedsim.sources.folders import chosen_split, folder_files
from fedsim.sources.pictures import SCALE, labelled

TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
MAX_SIDES = 8  # of an array
FILE = re.compile(
    r"(?:(?P<split>[\w-]+)-)?"
    r"(?P<part>train|t10k|test)[-.](?P<content>images|labels)[-.]idx\d-ubyte(?:\.gz)?"
)
WHERE = (
    "the four files of MNIST are train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
    "t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz (yann.lecun.com/exdb/mnist); those of "
    "Fashion-MNIST (github.com/zalandoresearch/fashion-mnist) and EMNIST (nist.gov) are alike"
)
Files = dict[tuple[str, str], Path]  # (train or test, images or labels) -> file


@dataset
def idx(path: Name, split: str | None = None, sha256: str | None = None) -> Arrays:
    """Images and labels in idx files, as of MNIST, Fashion-MNIST, KMNIST and EMNIST: `[28, 28, 1]`.

    Pixels are bytes, divided by 255. The files keep their names: `train-images-idx3-ubyte`,
    `train-labels-idx1-ubyte`, and `t10k-…` or `test-…` if there is a test set, each with `.gz` or
    without. EMNIST's names begin with a split, `emnist-letters-train-…`; its images are stored
    transposed, and stay so.

    Args:
      path: the folder of the files, in the scenario's folder, the working directory or a
        `--data-root`.
      split: the part of the names before `-train-images-…`, where a folder holds several sets.
      sha256: the common hash of these files; others are refused (filled in by the resolved
        scenario).

    Raises:
      DataError: for a folder without such files, or files that are not as their headers say.

    References:
      LeCun, Cortes, Burges, The MNIST database; Cohen et al. 2017, EMNIST, arXiv:1702.05373.
    """
    with folder_files(path, sha256) as folder:
        files = _files(folder, split)
        x, y = _pair(files, "train")
        x_test = None
        y_test = None
        if any(part == "test" for part, _ in files):
            x_test, y_test = _pair(files, "test")
        scale = SCALE if x.dtype == np.uint8 else 1.0
        return Arrays(x, y, None, x_test, y_test, scale=scale)


def _files(folder: dict[str, Path], split: str | None) -> Files:
    """The files of a split; the uncompressed file where both are there."""
    matches = []
    for name, path in folder.items():
        match = FILE.fullmatch(name)
        if match is not None:
            matches.append((match, path))
    if not matches:
        raise DataError(f"no idx files; {WHERE}")
    splits = sorted({match["split"] or "" for match, _ in matches})
    chosen = chosen_split(splits, split)

    # A later file replaces an earlier one, so gzipped files come first.
    matches.sort(key=lambda pair: pair[1].suffix != ".gz")
    files = {}
    for match, path in matches:
        if (match["split"] or "") == chosen:
            part = "train" if match["part"] == "train" else "test"
            files[part, match["content"]] = path
    return files


def _pair(files: Files, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The images `[n, height, width, 1]` and labels `[n]` of a part."""
    for content in ("images", "labels"):
        if (part, content) not in files:
            raise DataError(f"no {part} {content}; {WHERE}")
    images = read_idx(files[part, "images"])
    return labelled(images, read_idx(files[part, "labels"]), (f"{part} images", f"{part} labels"))


def read_idx(path: Path) -> np.ndarray:
    """Return the array in an idx file, gzipped or not."""
    with opened(str(path)) as file:
        values = _array(np.frombuffer(unpacked(file), np.uint8))
        return values.astype(values.dtype.newbyteorder("="), copy=False)


def _array(content: np.ndarray) -> np.ndarray:
    magic = content[:4].tobytes()
    is_idx = len(magic) == 4 and magic[:2] == b"\0\0" and magic[2] in TYPES
    if not is_idx or not 1 <= magic[3] <= MAX_SIDES:
        raise DataError("not an idx file: it begins differently")
    dtype = np.dtype(TYPES[magic[2]])
    start = 4 + 4 * magic[3]
    if len(content) < start:
        raise DataError("ends within its header")
    shape = tuple(content[4:start].view(">u4").tolist())
    body = content[start:]
    if math.prod(shape) * dtype.itemsize != len(body):
        problem = f"its header promises {dtype.name} {shape}, but {len(body)} bytes follow"
        raise DataError(problem)
    return body.view(dtype).reshape(shape)
