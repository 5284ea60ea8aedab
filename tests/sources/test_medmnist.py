"""MedMNIST's archives, in their true form: which images train and test, and what is refused."""

import numpy as np
import pytest

from fedsim.errors import DataError
from fedsim.sources import medmnist, npz

RNG = np.random.default_rng(0)


def parts(*sample: int, labels: int = 1) -> dict[str, np.ndarray]:
    """As in pathmnist.npz (colour), pneumoniamnist.npz (grey), organmnist3d.npz (volume)."""
    made = {}
    for part, n in (("train", 6), ("val", 3), ("test", 4)):
        made[f"{part}_images"] = RNG.integers(0, 256, (n, *sample), np.uint8)
        made[f"{part}_labels"] = RNG.integers(0, 2, (n, labels)).astype(np.uint8)
    return made


def kept(folder, arrays: dict[str, np.ndarray]) -> str:
    np.savez_compressed(folder / "set.npz", **arrays)
    return str(folder / "set.npz")


@pytest.mark.parametrize("sample", [(28, 28), (28, 28, 3), (28, 28, 28), (64, 64)])
def test_images_and_volumes(tmp_path, sample):
    made = parts(*sample)
    got = medmnist(kept(tmp_path, made))
    np.testing.assert_array_equal(
        got.x.reshape(9, *sample), np.concatenate([made["train_images"], made["val_images"]])
    )
    np.testing.assert_array_equal(got.x_test.reshape(4, *sample), made["test_images"])
    assert got.y.tolist() == [
        *made["train_labels"][:, 0].tolist(),
        *made["val_labels"][:, 0].tolist(),
    ]
    assert got.x.ndim == 4 and got.x.dtype == np.uint8 and got.scale == 1 / 255
    assert len(medmnist(kept(tmp_path, made), val="drop").y) == 6


def changed(**arrays) -> dict[str, np.ndarray]:
    made = {**parts(4, 4), **arrays}
    return {name: array for name, array in made.items() if array is not None}


WRONG = {
    "several labels": (parts(4, 4, labels=14), r"several labels for each image \(ChestMNIST\)"),
    "floats": (
        changed(train_images=np.zeros((6, 4, 4))),
        r"train_images: expected bytes \[n, height, width\], found f",
    ),
    "labels alone": (changed(test_labels=None), "no array 'test_labels'"),
    "another archive": (
        {"x": np.eye(3), "y": np.arange(3)},
        r"no array 'train_images'; MedMNIST's files \(pathmnist\.npz",
    ),
    "too few labels": (
        changed(train_labels=np.zeros((5, 1), np.uint8)),
        "6 train_images and 5 train_labels",
    ),
    "objects": (
        changed(val_labels=np.array([[1], [None], [2]], object)),
        "val_labels: holds Python objects",
    ),
    "two shapes": (
        changed(test_images=np.zeros((4, 5, 5), np.uint8)),
        r"several shapes: \(4, 4, 1\), \(5, 5, 1\)",
    ),
    "a name that is nearly right": (
        changed(train_image=np.eye(2)),
        "'train_image' has no meaning here; did you mean",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_archives_are_refused(tmp_path, case):
    arrays, says = WRONG[case]
    with pytest.raises(DataError, match=says) as error:
        medmnist(kept(tmp_path, arrays))
    assert str(error.value).startswith(f"{tmp_path}/set.npz: ")


def test_the_other_reader_of_archives_knows_the_form(tmp_path):
    with pytest.raises(
        DataError,
        match=r"no array 'x'; this is a set of MedMNIST: write kind: medmnist",
    ):
        npz(kept(tmp_path, parts(4, 4)))
