"""LEAF's data sets: written as LEAF writes them, read, refused if inconsistent."""

import json

import numpy as np
import pytest
from leaf_sets import written

from fedsim.compose import FAMILIES
from fedsim.errors import DataError
from fedsim.sources.leaf import LETTERS


def read(path, **keys):
    return FAMILIES["dataset"]["leaf"](path=str(path), **keys)


def test_femnist(tmp_path):
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (5, 784)) / 255, rng.integers(0, 62, 5)
    x, y = pixels.tolist(), labels.tolist()
    users = {"f0000_14": (x[:2], y[:2]), "f0001_41": (x[2:], y[2:])}
    written(tmp_path / "data", "train", users, files=2)
    written(tmp_path / "data", "test", {"f0001_41": (x[:1], y[:1])})
    arrays = read(tmp_path)
    assert arrays.x.shape == (5, 28, 28, 1)
    assert arrays.x.dtype == np.uint8 and arrays.scale == 1 / 255
    np.testing.assert_allclose(arrays.x.reshape(5, -1) / 255, pixels)
    assert arrays.y.tolist() == y and arrays.y_test.tolist() == y[:1]
    assert arrays.client.tolist() == ["f0000_14"] * 2 + ["f0001_41"] * 3
    assert arrays.client_test.tolist() == ["f0001_41"]


def test_shakespeare(tmp_path):
    text = "To be, or not to be: that is the question; "
    text += "whether 'tis nobler in the mind to suffer the slings"
    x = [text[i : i + 80] for i in range(10)]
    y = [text[i + 80] for i in range(10)]
    written(tmp_path, "train", {"HAMLET": (x, y), "YORICK": (["é" * 80], ["~"])})
    arrays = read(tmp_path)
    assert arrays.vocabulary == 80 and arrays.labels == list(LETTERS) and arrays.x.shape == (11, 80)
    assert "".join(LETTERS[code] for code in arrays.x[3]) == x[3]
    assert [LETTERS[code] for code in arrays.y[:10]] == y
    assert (arrays.x[10] == 79).all() and arrays.y[10] == 79 and arrays.x_test is None


def test_sent140(tmp_path):
    row = lambda text: ["1", "Mon", "NO_QUERY", "someone", text]
    of_a = ([row("Good day, good DAY!"), row("bad")], [4, 0])
    written(tmp_path, "train", {"a": of_a, "b": ([row("good")], [4])})
    written(tmp_path, "test", {"a": ([row("good unseen")], [4])})
    arrays = read(tmp_path, length=6, vocabulary=5)
    # "!" is the third of those that stand once, ties in their order
    words = ["<padding>", "<unknown>", "good", "day", "!"]
    assert arrays.vocabulary == 5 and arrays.y.tolist() == [1, 0, 1]
    assert [words[code] for code in arrays.x[0]] == ["good", "day", "<unknown>", "good", "day", "!"]
    assert arrays.x[1].tolist() == [0, 0, 0, 0, 0, 1]
    assert arrays.x_test.tolist() == [[0, 0, 0, 0, 2, 1]]


def test_synthetic_and_targets(tmp_path):
    users = {"u": ([[0.5, 2.0], [1.5, -1.0]], [0.25, 1.0]), "v": ([[3, 4]], [2.5])}
    written(tmp_path, "train", users)
    arrays = read(tmp_path)
    assert arrays.x.tolist() == [[0.5, 2.0], [1.5, -1.0], [3, 4]]
    assert arrays.y.tolist() == [0.25, 1.0, 2.5]


def test_celeba(tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "raw").mkdir()
    for i in range(3):
        image.new("RGB", (9, 8), (10 * i, 0, 0)).save(tmp_path / "raw" / f"{i}.png")
    written(tmp_path, "train", {"7": (["0.png", "2.png"], [0, 1])})
    written(tmp_path, "test", {"8": (["1.png"], [1])})
    arrays = read(tmp_path, images="raw", size=[4, 4])
    assert arrays.x.shape == (2, 4, 4, 3)
    assert arrays.x[1, 0, 0, 0] == 20 and arrays.x_test[0, 0, 0, 0] == 10
    assert arrays.client.tolist() == ["7", "7"] and arrays.client_test.tolist() == ["8"]
    (tmp_path / "raw" / "2.png").unlink()
    with pytest.raises(DataError, match=r"no image '2.png' \(1 missing\); put them into a folder"):
        read(tmp_path, images="raw", size=[4, 4])


GOOD = {"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": [[1.0, 2.0]], "y": [0]}}}


def test_rows_of_different_shapes_and_users_in_two_files(tmp_path):
    written(tmp_path, "train", {"u": ([[1.0, 2.0]], [0]), "v": ([[1.0]], [0])})
    with pytest.raises(DataError, match="x has rows of different shapes"):
        read(tmp_path)
    written(tmp_path, "train", {"u": ([[1.0, 2.0]], [0]), "v": ([[1.0, 3.0]], [0])})
    (tmp_path / "train" / "b.json").write_text(json.dumps(GOOD))
    with pytest.raises(DataError, match="user 'u' occurs twice"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no such files; LEAF's preprocess.sh"):
        read(tmp_path / "empty")


@pytest.mark.parametrize(("numbers", "texts"), [("train", "test"), ("test", "train")])
def test_numbers_in_one_split_and_text_in_the_other(tmp_path, numbers, texts):
    written(tmp_path, numbers, {"u": ([[1.0, 2.0]], [0])})
    written(tmp_path, texts, {"u": (["to be"], [0])})
    with pytest.raises(DataError, match="x is numbers in one of train and test, and text in the"):
        read(tmp_path)
