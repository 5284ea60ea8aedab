"""CIFAR-10 and CIFAR-100 in their binary versions, which need no pickle."""

import re
from pathlib import Path

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.files import Name, opened
from fedsim.sources.folders import folder_files

PIXELS = 3 * 32 * 32
CIFAR10 = {"train": re.compile(r"data_batch_[1-5]\.bin"), "test": re.compile(r"test_batch\.bin")}
CIFAR100 = {"train": re.compile(r"train\.bin"), "test": re.compile(r"test\.bin")}
WHERE = (
    "unpack cifar-10-binary.tar.gz or cifar-100-binary.tar.gz, the binary versions at www.cs.toronto.edu/~kriz/cifar.html, "
    "and give the folder"
)
PICKLED = re.compile(r"(data_batch_[1-5]|test_batch|batches\.meta|train|test|meta)")


@dataset
def cifar10(path: Name, sha256: str | None = None) -> Arrays:
    """CIFAR-10, binary version: 50,000 training and 10,000 test images 32×32×3 of ten classes, pixels over 255.

    Args:
      path: of the folder with `data_batch_1.bin` … `data_batch_5.bin` and `test_batch.bin` (`cifar-10-batches-bin`).
      sha256: of these files together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: for a folder without such files, the pickled version among them, or files of another length.

    References:
      Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    return _images(
        path,
        sha256,
        CIFAR10,
        "cifar-10-binary.tar.gz",
        labels=1,
        label=0,
        classes=10,
        records=10_000,
    )


@dataset
def cifar100(path: Name, coarse: bool = False, sha256: str | None = None) -> Arrays:
    """CIFAR-100, binary version: 50,000 training and 10,000 test images 32×32×3 of a hundred classes, pixels over 255.

    Args:
      path: of the folder with `train.bin` and `test.bin` (`cifar-100-binary`).
      coarse: whether labels are the 20 superclasses.
      sha256: of these files together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: for a folder without such files, the pickled version among them, or files of another length.

    References:
      Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    known = {
        "labels": 2,
        "label": 0 if coarse else 1,
        "classes": 20 if coarse else 100,
        "records": 50_000,
    }
    return _images(path, sha256, CIFAR100, "cifar-100-binary.tar.gz", **known)


def _images(
    path: str,
    sha256: str | None,
    patterns: dict[str, re.Pattern],
    archive: str,
    labels: int,
    label: int,
    classes: int,
    records: int,
) -> Arrays:
    """At most so many records a file: `labels` bytes, then red, green and blue planes."""
    with folder_files(path, sha256) as files:
        sets = {
            part: [p for name, p in files.items() if pattern.fullmatch(name)]
            for part, pattern in patterns.items()
        }
        if not sets["train"]:
            pickled = any(PICKLED.fullmatch(name) for name in files)
            why = (
                "holds the version for Python, which is pickled and could run anything"
                if pickled
                else "no such files"
            )
            raise DataError(f"{why}; unpack {archive}, the binary version, and give its folder")
        x, y = _records(sets["train"], labels, label, classes, records)
        x_test, y_test = (
            _records(sets["test"], labels, label, classes, records)
            if sets["test"]
            else (None, None)
        )
        return Arrays(x, y, None, x_test, y_test, scale=1 / 255)


def _records(
    files: list[Path], labels: int, label: int, classes: int, records: int
) -> tuple[np.ndarray, np.ndarray]:
    images, numbers = [], []
    for path in files:
        with opened(str(path), most=records * (labels + PIXELS)) as file:
            content = np.frombuffer(file.read(), np.uint8)
            if not len(content) or len(content) % (labels + PIXELS):
                raise DataError(f"{len(content)} bytes are no whole records of {labels + PIXELS}")
            rows = content.reshape(-1, labels + PIXELS)
            if rows[:, label].max() >= classes:
                raise DataError(
                    f"record {int(rows[:, label].argmax())} has label {rows[:, label].max()} of {classes}"
                )
            images.append(rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            numbers.append(rows[:, label].astype(np.int64))
    return np.concatenate(images), np.concatenate(numbers)
