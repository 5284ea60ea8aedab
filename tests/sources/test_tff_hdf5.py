"""TensorFlow Federated's HDF5 files: read, and refused if they are others."""

import sys

import numpy as np
import pytest

pytest.importorskip("h5py")

from tff_sets import emnist, written

from fedsim.compose import FAMILIES
from fedsim.errors import DataError
from fedsim.sources.tff_hdf5 import LETTERS

RNG = np.random.default_rng(0)


def read(path, **keys):
    return FAMILIES["dataset"]["tff_hdf5"](path=str(path), **keys)


@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip", "shuffle": True, "fletcher32": True}]
)
def test_emnist(tmp_path, options):
    train = {"f0001_41": emnist(3), "f0000_14": emnist(2, 1)}
    written(tmp_path / "d/fed_emnist_train.h5", train, **options)
    written(tmp_path / "d/fed_emnist_test.h5", {"f0001_41": emnist(1, 2)}, **options)
    arrays = read(tmp_path / "d")
    assert arrays.client.tolist() == ["f0000_14"] * 2 + ["f0001_41"] * 3
    assert arrays.client_test.tolist() == ["f0001_41"]
    assert arrays.x.shape == (5, 28, 28, 1)
    assert arrays.x.dtype == np.uint8 and arrays.scale == 1 / 255
    np.testing.assert_allclose(arrays.x[2:, ..., 0] / 255, train["f0001_41"]["pixels"], atol=1e-6)
    assert arrays.y[2:].tolist() == train["f0001_41"]["label"].tolist()
    assert arrays.y_test.tolist() == emnist(1, 2)["label"].tolist()
    assert len(read(tmp_path / "d/fed_emnist_train.h5").y) == 5


def test_other_values_than_bytes_stay_numbers(tmp_path):
    whole, odd = emnist(2), emnist(2, 1)
    odd["pixels"][0, 0, 0] = 0.5001
    arrays = read(written(tmp_path / "a.h5", {"a": whole, "b": odd}))
    assert arrays.x.dtype == np.float32 and arrays.scale is None
    pixels = np.concatenate([whole["pixels"], odd["pixels"]])
    np.testing.assert_allclose(arrays.x[..., 0], pixels, atol=1e-6)
    written(tmp_path / "d/s_train.h5", {"a": whole})
    written(tmp_path / "d/s_test.h5", {"b": odd})
    arrays = read(tmp_path / "d")
    assert arrays.x.dtype == arrays.x_test.dtype == np.float32
    np.testing.assert_allclose(arrays.x[..., 0], whole["pixels"], atol=1e-6)


def test_cifar100(tmp_path):
    fields = {
        "image": RNG.integers(0, 256, (4, 32, 32, 3), np.uint8),
        "label": np.arange(4),
        "coarse_label": np.arange(4) // 2,
    }
    path = written(tmp_path / "a.h5", {"0": fields, "1": fields})
    arrays = read(path, first_clients=1, first_samples=3)
    np.testing.assert_array_equal(arrays.x, fields["image"][:3])
    assert arrays.y.tolist() == [0, 1, 2] and arrays.scale == 1 / 255
    assert set(arrays.client) == {"0"}
    assert read(path, coarse=True).y.tolist() == [0, 0, 1, 1] * 2


def test_shakespeare(tmp_path):
    assert len(set(LETTERS)) == 86
    path = written(
        tmp_path / "shakespeare_train.h5", {"KING": {"snippets": [b"dhd\xc3", b"", b"lptx@"]}}
    )
    arrays = read(path, length=4)
    # runs of five: 88 1 2 1 87 | 89 nothing; 88 89 nothing; 88 3 4 5 6 | 7 89 nothing
    assert arrays.x.tolist() == [[88, 1, 2, 1], [88, 89, 0, 0], [88, 3, 4, 5], [7, 89, 0, 0]]
    assert arrays.y.tolist() == [[1, 2, 1, 87], [89, -1, -1, -1], [3, 4, 5, 6], [89, -1, -1, -1]]
    assert arrays.vocabulary == 90 and arrays.labels[1] == "d"
    assert arrays.labels[86:] == ["\r", "<unknown>", "<begin>", "<end>"]
    assert read(path).x.shape == (3, 80)


def test_stack_overflow(tmp_path):
    fields = {"tokens": [b"how to sort a list", b"sort"], "title": [b"a", b"b"]}
    written(tmp_path / "d/stackoverflow_train.h5", {"17": fields})
    written(tmp_path / "d/stackoverflow_test.h5", {"9": {"tokens": [b"sort unseen"]}})
    written(tmp_path / "d/stackoverflow_held_out.h5", {"8": {"tokens": [b"sort"]}})
    arrays = read(tmp_path / "d", length=4, vocabulary=3)
    assert arrays.labels == ["<padding>", "sort", "a", "how", "<unknown>", "<begin>", "<end>"]
    assert arrays.x.tolist() == [[5, 3, 4, 1], [5, 1, 6, 0]]
    assert arrays.y.tolist() == [[3, 4, 1, 2], [1, 6, -1, -1]]
    assert arrays.y_test.tolist() == [[1, 4, 6, -1]] and arrays.client_test.tolist() == ["9"]


def test_folders(tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(DataError, match="no such files; the files are fed_emnist_train"):
        read(tmp_path / "d")
    for name in ("fed_emnist", "fed_emnist_digitsonly"):
        written(tmp_path / f"d/{name}_train.h5", {"a": emnist(len(name))})
    with pytest.raises(DataError, match="holds fed_emnist, fed_emnist_digitsonly; choose one with"):
        read(tmp_path / "d")
    assert len(read(tmp_path / "d", split="fed_emnist").y) == 10
    with pytest.raises(DataError, match="split: none is called 'x'; there are fed_emnist"):
        read(tmp_path / "d", split="x")
    with pytest.raises(DataError, match="not the expected file"):
        read(tmp_path / "d/fed_emnist_train.h5", sha256="0" * 64)


def test_without_h5py_its_install_is_named(tmp_path, monkeypatch):
    path = written(tmp_path / "a.h5", {"a": emnist(1)})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"tff_hdf5 needs h5py: pip install 'fedsim-jax\[hdf5\]'"):
        read(path)
