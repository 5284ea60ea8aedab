"""MedMNIST's archives, in their true form: which images train and test, and what is refused."""

import numpy as np
import pytest

from fedsim.sources import medmnist

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


@pytest.mark.parametrize("sample", [(28, 28), (28, 28, 3), (28, 28, 28)])
def test_images_and_volumes(tmp_path, sample):
    made = parts(*sample)
    got = medmnist(kept(tmp_path, made))
    images, labels = (
        np.concatenate([made[f"train_{what}"], made[f"val_{what}"]])
        for what in ("images", "labels")
    )
    np.testing.assert_array_equal(got.x.reshape(9, *sample), images)
    np.testing.assert_array_equal(got.x_test.reshape(4, *sample), made["test_images"])
    np.testing.assert_array_equal(got.y, labels[:, 0])
    assert got.x.ndim == 4 and got.x.dtype == np.uint8 and got.scale == 1 / 255
    assert len(medmnist(kept(tmp_path, made), val="drop").y) == 6
