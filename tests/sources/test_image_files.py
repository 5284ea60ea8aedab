"""Images in the formats of their distributors: written byte for byte, read, refused if they lie."""

import gzip
import struct

import numpy as np
import pytest

from fedsim.compose import FAMILIES
from fedsim.errors import DataError
from fedsim.sources.idx import read_idx

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.integers(0, 256, (7, 28, 28), np.uint8), RNG.integers(0, 10, 7, np.uint8)


def as_idx(array: np.ndarray, code: int = 8) -> bytes:
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def mnist(folder, front="", test="t10k", pack=gzip.compress, end=".gz"):
    for part in ("train", test):
        (folder / f"{front}{part}-images-idx3-ubyte{end}").write_bytes(pack(as_idx(IMAGES)))
        (folder / f"{front}{part}-labels-idx1-ubyte{end}").write_bytes(pack(as_idx(LABELS)))
    return str(folder)


def read(kind, path, **parameters):
    return FAMILIES["dataset"][kind](path=path, **parameters)


@pytest.mark.parametrize(
    ("pack", "end", "test"), [(gzip.compress, ".gz", "t10k"), (bytes, "", "test")]
)
def test_mnist_as_it_is_distributed(tmp_path, pack, end, test):
    arrays = read("idx", mnist(tmp_path, test=test, pack=pack, end=end))
    np.testing.assert_array_equal(arrays.x, IMAGES[..., None])
    assert arrays.x.dtype == np.uint8 and arrays.scale == 1 / 255
    np.testing.assert_array_equal(arrays.y, LABELS)
    np.testing.assert_array_equal(arrays.x_test, arrays.x)
    assert arrays.y_test.dtype == np.int64 and arrays.client is None


def test_splits_of_emnist(tmp_path):
    mnist(tmp_path, "emnist-letters-")
    assert len(read("idx", str(tmp_path)).x) == 7
    mnist(tmp_path, "emnist-digits-")
    assert len(read("idx", str(tmp_path), split="emnist-digits").x) == 7
    with pytest.raises(DataError, match="holds emnist-digits, emnist-letters; choose one with"):
        read("idx", str(tmp_path))


def test_every_type_of_the_format(tmp_path):
    for code, dtype in {9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}.items():
        values = np.arange(-3, 3).reshape(2, 3).astype(dtype)
        (tmp_path / "a").write_bytes(as_idx(values, code))
        array = read_idx(tmp_path / "a")
        np.testing.assert_array_equal(array, values)
        assert array.dtype.isnative


def test_folders(tmp_path):
    with pytest.raises(DataError, match="no idx files; the four files of MNIST are"):
        read("idx", str(tmp_path))
    path = mnist(tmp_path)
    with pytest.raises(DataError, match="not the expected files: their SHA-256 is"):
        read("idx", path, sha256="0" * 64)
    with pytest.raises(DataError, match="expected a folder, found a file"):
        read("idx", f"{path}/train-images-idx3-ubyte.gz")
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="no train labels"):
        read("idx", path)
    (tmp_path / "train-labels-idx1-ubyte.gz").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="a link that leads out of the folder"):
        read("idx", path)


def records(n: int, labels: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    images = RNG.integers(0, 256, (n, 32, 32, 3), np.uint8)
    numbers = RNG.integers(0, classes, (n, labels), np.uint8)
    return images, numbers


def binary(images, numbers) -> bytes:
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([numbers, pixels], 1).tobytes()


def test_cifar10(tmp_path):
    parts = [records(3, 1, 10) for _ in range(6)]
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name, part in zip(names, parts, strict=True):
        (tmp_path / f"{name}.bin").write_bytes(binary(*part))
    arrays = read("cifar10", str(tmp_path))
    np.testing.assert_array_equal(arrays.x[3:6], parts[1][0])
    assert arrays.x.dtype == np.uint8 and arrays.scale == 1 / 255
    np.testing.assert_array_equal(arrays.y, np.concatenate([part[1][:, 0] for part in parts[:5]]))
    np.testing.assert_array_equal(arrays.y_test, parts[5][1][:, 0])


@pytest.mark.parametrize("coarse", [False, True])
def test_cifar100(tmp_path, coarse):
    images, numbers = records(4, 2, 20)
    (tmp_path / "train.bin").write_bytes(binary(images, numbers))
    arrays = read("cifar100", str(tmp_path), coarse=coarse)
    np.testing.assert_array_equal(arrays.x, images)
    np.testing.assert_array_equal(arrays.y, numbers[:, 0 if coarse else 1])
    assert arrays.x_test is None
