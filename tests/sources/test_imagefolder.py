"""Folders of images: classes, clients and splits by name, unchanged pixels, and other files."""

import os

import numpy as np
import pytest
from encoded import encoded

from fedsim import limits
from fedsim.errors import DataError, OutOfMemoryError
from fedsim.sources import imagefolder

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 5, 4), np.uint8)
COLOUR = RNG.integers(0, 256, (6, 5, 4, 3), np.uint8)


def put(folder, name: str, content: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def folder_of(folder, names: list[str], images=COLOUR):
    for name, image in zip(names, images, strict=False):
        put(folder, name, encoded(image))
    return str(folder)


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "WEBP"])
def test_pixels_are_those_of_the_file(tmp_path, form):
    """The last with lossless compression, the others always."""
    options = {"lossless": True} if form == "WEBP" else {}
    for i, name in enumerate(("zebra/b", "zebra/a", "ant/c")):
        put(tmp_path, f"{name}.{form.lower()}", encoded(COLOUR[i], form, **options))
    arrays = imagefolder(str(tmp_path))
    np.testing.assert_array_equal(arrays.x, COLOUR[[2, 1, 0]])
    assert arrays.x.dtype == np.uint8 and arrays.scale == 1 / 255 and arrays.x_test is None
    assert arrays.y.tolist() == [0, 1, 1] and list(arrays.labels) == ["ant", "zebra"]


def test_grey_images_have_a_channel(tmp_path):
    path = folder_of(tmp_path, ["a/1.png", "b/2.png"], GREY)
    np.testing.assert_array_equal(imagefolder(path).x, GREY[:2, :, :, None])
    assert imagefolder(path, channels=3).x.shape == (2, 5, 4, 3)
    put(tmp_path, "b/3.png", encoded(COLOUR[0]))
    assert imagefolder(path).x.shape == (3, 5, 4, 3)
    assert imagefolder(path, channels=1).x.shape == (3, 5, 4, 1)


@pytest.mark.parametrize("test", ["test", "val"])
def test_splits(tmp_path, test):
    names = ["train/a/1.png", "train/b/2.png", f"{test}/b/3.png", "other/c/4.png", "README.md"]
    path = folder_of(tmp_path, names)
    arrays = imagefolder(path)
    assert arrays.y.tolist() == [0, 1] and arrays.y_test.tolist() == [1]
    np.testing.assert_array_equal(arrays.x_test, COLOUR[2:3])
    with pytest.raises(DataError, match=r"other/c/4\.png: no class 'c' among the training images"):
        imagefolder(path, test_split="other")
    with pytest.raises(DataError, match="split: no folder 'all'; there are other, t"):
        imagefolder(path, split="all")


def test_clients(tmp_path):
    names = ["train/10/b/1.png", "train/9/a/1.png", "train/9/b/1.png", "test/9/a/1.png"]
    arrays = imagefolder(folder_of(tmp_path, names), client_folders=True)
    assert arrays.client.tolist() == [10, 9, 9] and arrays.y.tolist() == [1, 0, 1]
    assert arrays.client_test.tolist() == [9] and list(arrays.labels) == ["a", "b"]
    with pytest.raises(DataError, match=r"'9' holds images in several folders: .* client_f"):
        imagefolder(str(tmp_path))


def test_what_does_not_count(tmp_path):
    path = folder_of(tmp_path, ["a/images/1.png", "b/images/2.png"])
    hidden = (".git/config", "a/.DS_Store", "b/images/Thumbs.db")
    for name in (*hidden, "a/boxes.txt", "labels.csv", "LICENSE"):
        put(tmp_path, name, b"x")
    assert imagefolder(path).y.tolist() == [0, 1]


def test_sizes(tmp_path):
    path = folder_of(tmp_path, ["a/1.png", "b/2.png"])
    put(tmp_path, "b/3.png", encoded(np.full((8, 4, 3), 7, np.uint8)))
    sizes = r"2 sizes, height x width: 5 x 4 \(2\), 8 x 4 \(1\); write size: \[height, wi"
    with pytest.raises(DataError, match=sizes):
        imagefolder(path)
    x = imagefolder(path, size=[6, 2]).x
    assert x.shape == (3, 6, 2, 3) and (x[2] == 7).all()
    np.testing.assert_array_equal(imagefolder(path, size=[5, 4]).x[:2], COLOUR[:2])


def test_room_is_counted_before_an_image_is_decoded(tmp_path, monkeypatch):
    path = folder_of(tmp_path, ["a/1.png", "b/2.png"])
    with pytest.raises(DataError, match=r"size: 10000000 x 10000000 pixels; at most 67108864 in"):
        imagefolder(path, size=[10**7, 10**7])
    monkeypatch.setattr(limits, "memory_limit", lambda: 1 << 20)
    with pytest.raises(OutOfMemoryError, match=r"images 24\.0 MB"):
        imagefolder(path, size=[2000, 2000])


def test_links_and_pipes(tmp_path):
    path = folder_of(tmp_path / "set", ["a/1.png", "b/2.png"])
    os.mkfifo(tmp_path / "set/a/2.png")
    with pytest.raises(DataError, match=r"a/2\.png: not a regular file"):
        imagefolder(path)
    (tmp_path / "set/a/2.png").unlink()
    folder_of(tmp_path / "elsewhere", ["c/1.png"])
    (tmp_path / "set/c").symlink_to("../elsewhere/c")
    with pytest.raises(DataError, match="'c' is a link to a folder; put the folder itself there"):
        imagefolder(path)
    (tmp_path / "set/c").unlink()
    (tmp_path / "set/a/2.png").symlink_to("../../elsewhere/c/1.png")
    with pytest.raises(DataError, match=r"'a/2\.png' is a link that leads out of the folder"):
        imagefolder(path)
