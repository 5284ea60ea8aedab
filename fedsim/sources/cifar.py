"""CIFAR-10 and CIFAR-100 in their binary versions, which need no pickle."""

import re
from pathlib import Path
from typing import NamedTuple

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
    "unpack cifar-10-binary.tar.gz or cifar-100-binary.tar.gz, the binary versions at "
    "www.cs.toronto.edu/~kriz/cifar.html, and give the folder"
)
PICKLED = re.compile(r"(data_batch_[1-5]|test_batch|batches\.meta|train|test|meta)")


class _Version(NamedTuple):
    """The files of a data set, and their records: labels, then red, green and blue planes."""

    files: dict[str, re.Pattern]  # patterns of the names for training and for testing
    archive: str  # the archive that holds them
    max_records: int  # records that a file may have
    label_bytes: int  # labels at the start of a record, a byte each
    label: int  # the index of the label that is read
    classes: int  # the number of classes of that label

    @property
    def record_bytes(self) -> int:
        return self.label_bytes + PIXELS


@dataset
def cifar10(path: Name, sha256: str | None = None) -> Arrays:
    """CIFAR-10, binary version: 50,000 training and 10,000 test images 32×32×3 of ten classes.

    Pixels are bytes, divided by 255.

    Args:
      path: the folder with `data_batch_1.bin` … `data_batch_5.bin` and `test_batch.bin`
        (`cifar-10-batches-bin`).
      sha256: the common hash of these files; others are refused (filled in by the resolved
        scenario).

    Raises:
      DataError: for a folder without such files, such as the pickled version, and for files of
        another length.

    References:
      Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    version = _Version(
        files=CIFAR10,
        archive="cifar-10-binary.tar.gz",
        max_records=10_000,
        label_bytes=1,
        label=0,
        classes=10,
    )
    return _images(path, sha256, version)


@dataset
def cifar100(path: Name, coarse: bool = False, sha256: str | None = None) -> Arrays:
    """CIFAR-100, binary version: 50,000 training and 10,000 test images 32×32×3 of 100 classes.

    Pixels are bytes, divided by 255.

    Args:
      path: the folder with `train.bin` and `test.bin` (`cifar-100-binary`).
      coarse: whether labels are the 20 superclasses.
      sha256: the common hash of these files; others are refused (filled in by the resolved
        scenario).

    Raises:
      DataError: for a folder without such files, such as the pickled version, and for files of
        another length.

    References:
      Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    version = _Version(
        files=CIFAR100,
        archive="cifar-100-binary.tar.gz",
        max_records=50_000,
        label_bytes=2,
        label=0 if coarse else 1,
        classes=20 if coarse else 100,
    )
    return _images(path, sha256, version)


def _images(path: str, sha256: str | None, version: _Version) -> Arrays:
    with folder_files(path, sha256) as files:
        train = [file for name, file in files.items() if version.files["train"].fullmatch(name)]
        test = [file for name, file in files.items() if version.files["test"].fullmatch(name)]
        if not train:
            problem = "no such files"
            if any(PICKLED.fullmatch(name) for name in files):
                problem = "holds the version for Python, which is pickled and could run anything"
            remedy = f"unpack {version.archive}, the binary version, and give its folder"
            raise DataError(f"{problem}; {remedy}")

        x, y = _read(train, version)
        x_test = None
        y_test = None
        if test:
            x_test, y_test = _read(test, version)
        return Arrays(x, y, None, x_test, y_test, scale=1 / 255)


def _read(files: list[Path], version: _Version) -> tuple[np.ndarray, np.ndarray]:
    """The images `[n, 32, 32, 3]` and labels `[n]` of all records."""
    images = []
    labels = []
    record_bytes = version.record_bytes
    for path in files:
        with opened(str(path), max_bytes=version.max_records * record_bytes) as file:
            content = np.frombuffer(file.read(), np.uint8)
            if not len(content) or len(content) % record_bytes:
                raise DataError(
                    f"{len(content)} bytes are not a whole number of records of {record_bytes}"
                )
            records = content.reshape(-1, record_bytes)
            file_labels = records[:, version.label]
            if file_labels.max() >= version.classes:
                record = int(file_labels.argmax())
                raise DataError(
                    f"record {record} has label {file_labels.max()} of {version.classes}"
                )
            planes = records[:, version.label_bytes :].reshape(-1, 3, 32, 32)
            images.append(planes.transpose(0, 2, 3, 1))
            labels.append(file_labels.astype(np.int64))
    return np.concatenate(images), np.concatenate(labels)
