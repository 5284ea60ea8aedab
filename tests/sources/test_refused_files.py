"""Files that no reader can make samples of: each gets one line, with the file and the place."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded import encoded, png_of
from test_image_files import as_idx
from tff_sets import SPOILED, emnist, spoiled, written

from fedsim.compose import FAMILIES
from fedsim.errors import DataError, OutOfMemoryError

BYTES, LARGER = np.zeros((9, 1), np.uint8), np.zeros((4, 5, 5), np.uint8)
X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.arange(12) % 3
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 28, 28), np.uint8)
ROWS = "x is not rows of equally many numbers"
OF_CLIENTS = {"column": "t", "client": "c"}
FOLDERS = ("leaf", "idx", "cifar10", "imagefolder")  # kinds that read the folder of the file


def archive(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **{n: array for n, array in arrays.items() if array is not None})
    return content.getvalue()


def lying_archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as lying:
        with lying.open("x.npy", "w") as member:
            head = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2)}
            np.lib.format.write_array_header_1_0(member, head)
            member.write(b"0" * 64)
        with lying.open("y.npy", "w") as member:
            np.lib.format.write_array(member, Y)
    return content.getvalue()


def stored(old: bytes, new: bytes) -> bytes:
    """An archive that is not compressed, with another header."""
    content = io.BytesIO()
    np.savez(content, x=X, y=Y)
    return content.getvalue().replace(old, new)


def medical(labels: int = 1, **changed: Any) -> bytes:
    """An archive of MedMNIST with other arrays; None: without."""
    made: dict[str, Any] = {}
    for part, n in (("train", 6), ("val", 3), ("test", 4)):
        made[f"{part}_images"] = np.zeros((n, 4, 4), np.uint8)
        made[f"{part}_labels"] = np.zeros((n, labels), np.uint8)
    return archive(**{**made, **changed})


def as_leaf(x: Any = ((1.0, 2.0),), y: Any = (0,), **changed: Any) -> bytes:
    content = {"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": x, "y": y}}}
    return json.dumps({**content, **changed}).encode()


def hdf5(**fields: Any) -> Callable[[Path], Path]:
    """A client with these examples."""
    return lambda path: written(path, {"a": fields} if fields else {})


def images(n: int, *shape: int) -> np.ndarray:
    return np.zeros((n, *shape), "f4")


def drawn(**changed: Any) -> Callable[[Path], Path]:
    """A client with three images, or other fields in their place."""
    return hdf5(**{"pixels": images(3, 28, 28), "label": Y[:3], **changed})


def almost_all(path: Path) -> None:
    content = written(path, {"a": emnist(2)}).read_bytes()
    path.write_bytes(content[: int(0.999 * len(content))])


HUGE = bytes([0, 0, 8, 3]) + b"\xff" * 12
CASES = {  # kind -> (what it is for, file, content or what writes it, what is said, keys)
    "npz": [
        ("objects", "a.npz", archive(x=X, y=np.array([{}] * 12)), "y: holds Python objects"),
        ("a bomb", "a.npz", archive(x=np.zeros((200_000, 10)), y=Y), "unpacks from"),
        ("a header that lies", "a.npz", lying_archive(), "but 64 bytes follow"),
        ("code in a header", "a.npz", stored(b"(12, 2)", b"exit(1)"), "not a sound npz archive"),
        ("records", "a.npz", archive(x=np.zeros(12, [("a", "f4")]), y=Y), "x: expected numbers"),
        ("another case", "a.npz", archive(X=X, y=Y), "array 'X' has no meaning here; did you mean"),
        ("a misspelt name", "a.npz", archive(x=X, y=Y, clients=Y), "did you mean 'client'"),
        ("an end too early", "a.npz", stored(b"", b"")[:300], "not a sound npz archive"),
        ("another format", "a.npz", medical(), "this is a set of MedMNIST: write kind: medmnist"),
    ],
    "medmnist": [
        ("several labels", "a.npz", medical(14), "several labels for each image (ChestMNIST)"),
        ("floats", "a.npz", medical(train_images=images(6, 4, 4)), "train_images: expected bytes"),
        ("another archive", "a.npz", archive(x=X, y=Y), "no array 'train_images'; MedMNIST's"),
        ("too few labels", "a.npz", medical(train_labels=BYTES[:5]), "6 train_images and 5 train_"),
        (
            "two shapes",
            "a.npz",
            medical(test_images=LARGER),
            "several shapes: (4, 4, 1), (5, 5, 1)",
        ),
        ("a misspelt name", "a.npz", medical(train_image=X), "'train_image' has no meaning here;"),
    ],
    "csv": [
        ("nothing", "t.csv", b"", "empty: expected a header with column names"),
        ("an empty line", "t.csv", b"\n", "empty: expected a header with column names"),
        ("nothing, gzipped", "t.csv.gz", gzip.compress(b""), "empty: expected a header"),
        ("a long row", "t.csv", b"a,y\n1,0\n3,1,1\n", "Expected 2 fields in line 3, saw 3"),
        ("two encodings", "t.csv", b"a,y\n1,0\nk\xe4se,1\n", "line 3: not UTF-8 text: byte 0xe4; "),
        ("a header alone", "t.csv", b"a,y\n", "no samples"),
        ("a negative class", "t.csv", b"a,y\n1,0\n1,-4\n", "row 3, column 'y': -4"),
        ("an infinite target", "t.csv", b"a,y\n1,0.5\n1,inf\n", "row 3, column 'y': inf"),
        ("no target", "t.csv", b"a,label\n1,0\n", "no column 'y'; there are 'a', 'label'"),
        ("no feature", "t.csv", b"y\n1\n", "no feature columns"),
        ("control codes", "t.csv", b"a,\x1b[31my\n1,0\n", r"there are 'a', '\x1b[31my'"),
    ],
    "text": [
        ("another encoding", "a.txt", b"caf\xe9", "not UTF-8 text: "),
        ("a mark alone", "a.txt", b"\xef\xbb\xbf", "no text of two characters or more"),
        ("one character", "a.txt", b"a", "no text of two characters or more"),
        ("one word", "a.txt", b"one", "no text of two words or more", {"tokens": "word"}),
        ("clients of a text", "a.txt", b"ab", "client names a column, but a", {"client": "c"}),
        ("a table", "a.csv", b"a,b\n", "is a table by its name; name the column of the texts with"),
        ("a bomb", "a.txt", gzip.compress(bytes(10 << 20)), "unpacks to more than"),
        ("an end too early", "a.txt", gzip.compress(b"hello")[:-4], "not a sound gzip file"),
        ("a misspelt column", "a.csv", b"txt,n\na,1\n", "did you mean 'txt'?", {"column": "text"}),
        ("no such client", "a.csv", b"t,n\na,1\n", "client: no column 'c'; there are", OF_CLIENTS),
        ("two columns", "a.csv", b"t,t\na,1\n", "several columns are called 't'", {"column": "t"}),
        ("a blank client", "a.csv", b"t,c\nab,\n", "row 2, column 'c': no client id", OF_CLIENTS),
        ("an open quote", "a.csv", b't,n\n"ab,1\n', "not a sound table: ", {"column": "t"}),
    ],
    "leaf": [
        ("many brackets", "train/a.json", b"[" * 100_000, "nested too deeply"),
        ("NaN", "train/a.json", as_leaf(x=[[float("nan")]]), "NaN cannot be learned from"),
        ("a long number", "train/a.json", b"[1" + b"0" * 5000 + b"]", "Exceeds the limit (4300 di"),
        ("half of it", "train/a.json", b"{", "not sound JSON"),
        ("another encoding", "train/a.json", b"\xff\xfe{", "not UTF-8 text"),
        ("a list", "train/a.json", b"[1]", "no `users` and `user_data`; LEAF's preprocess.sh"),
        ("too few", "train/a.json", as_leaf(num_samples=[2]), "promises 2, there are 1 x, 1 y"),
        ("no counts", "train/a.json", as_leaf(num_samples=[]), "not have a number for every user"),
        ("twice", "train/a.json", as_leaf(users=["u", "u"], num_samples=[1, 1]), "or occurs twice"),
        ("another user", "train/a.json", as_leaf(users=["w"]), "user 'w' has no lists x and y"),
        ("texts and a number", "train/a.json", as_leaf(x=[["1.0", 2.0]]), "fifth is the tweet"),
        ("a number and a text", "train/a.json", as_leaf(x=[[1.0, "2"]]), ROWS),
        ("no numbers", "train/a.json", as_leaf(x=[[]]), ROWS),
        ("lists of labels", "train/a.json", as_leaf(y=[[0]]), "y is not one number, or one text"),
        ("no users", "train/a.json", as_leaf(users=[], num_samples=[]), "no samples"),
    ],
    "idx": [
        ("another format", "train-images-idx3-ubyte", b"\x89PNG\r\n", "not an idx file"),
        ("another type", "train-images-idx3-ubyte", as_idx(PIXELS, 7), "not an idx file"),
        ("half a header", "train-images-idx3-ubyte", as_idx(PIXELS)[:10], "ends within its header"),
        ("too few", "train-images-idx3-ubyte", as_idx(PIXELS)[:-1], "but 5487 bytes follow"),
        ("a huge promise", "train-images-idx3-ubyte", HUGE, "but 0 bytes follow"),
        (
            "a bomb",
            "train-images-idx3-ubyte.gz",
            gzip.compress(bytes(1 << 24)),
            "unpacks to more th",
        ),
    ],
    "cifar10": [
        ("pickles", "data_batch_1", b"\x80", "could run anything; unpack cifar-10-binary.tar.gz"),
        ("too few", "data_batch_1.bin", bytes(3072), "not a whole number of records of 3073"),
        ("a label", "data_batch_1.bin", bytes([10]) + bytes(3072), "record 0 has label 10 of 10"),
        ("no such file", "readme.html", b"", "no such files; unpack cifar-10-binary.tar.gz"),
    ],
    "imagefolder": [
        ("text", "a/1.png", b"hello", "a/1.png: not an image of PNG, JPEG"),
        ("half of it", "a/1.png", encoded(PIXELS[0])[:-300], "a/1.png: not a sound image: "),
        ("a bomb", "a/1.png", png_of(50_000, 50_000), "a/1.png: has more than 89478485 pixels"),
        ("too few", "a/1.png", png_of(9000, 9000, b"\0" * 100), "a/1.png: not a sound image"),
        ("sixteen bits", "a/1.png", encoded(np.zeros((4, 4), np.uint16)), "8 bits in a channel"),
        ("a program", "a/1.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%EndComments\n", "not an image of"),
        ("no image", "a/run.sh", b"#!/bin/sh", "'a/run.sh' is not an image: its suffix is none of"),
        ("no class", "1.png", encoded(PIXELS[0]), "'1.png' is not in a class folder; put images"),
        ("nothing", "README.md", b"", "no images; put images at CLASS/IMAGE.png, or at"),
    ],
    "tff_hdf5": [
        ("other fields", "a.h5", hdf5(x=np.zeros(3)), "examples of 'x'; expected pixels, image"),
        ("no labels", "a.h5", hdf5(pixels=images(3, 28, 28)), "label: not a sound HDF5 file"),
        ("too few labels", "a.h5", drawn(label=Y[:2]), "expected a whole number for each of 3"),
        ("labels that are floats", "a.h5", drawn(label=np.zeros(3)), "found float64 (3,)"),
        ("another shape", "a.h5", drawn(pixels=images(3, 9)), "expected pixels of shape (28, 28)"),
        ("numbers as texts", "a.h5", hdf5(snippets=np.zeros(3)), "snippets are texts, found float"),
        ("no samples", "a.h5", drawn(pixels=images(0, 28, 28), label=Y[:0]), "no samples"),
        ("no clients", "a.h5", hdf5(), "not a sound HDF5 file: "),
        ("almost all of it", "a.h5", almost_all, "not a sound HDF5 file"),
    ],
}


def each() -> list[Any]:
    return [
        pytest.param(kind, *case[:3], dict(*case[3:]), id=f"{kind}: {what}")
        for kind, cases in CASES.items()
        for what, *case in cases
    ]


@pytest.mark.parametrize(("kind", "name", "content", "said", "keys"), each())
def test_a_file_that_cannot_be_read_gets_one_line_with_its_name(
    kind, name, content, said, keys, tmp_path
):
    folder = tmp_path / "data"
    path = folder / name
    path.parent.mkdir(parents=True)
    if kind == "idx":
        (folder / "train-labels-idx1-ubyte").write_bytes(as_idx(Y.astype(np.uint8)))
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    with pytest.raises(DataError) as error:
        FAMILIES["dataset"][kind](path=str(folder if kind in FOLDERS else path), **keys)
    (line,) = error.value.lines
    assert line.startswith(str(folder))
    assert said in line
    assert line.isprintable()
    assert len(line) < 400 + 2 * len(str(tmp_path))


@pytest.mark.parametrize("what", SPOILED)
def test_examples_that_promise_too_much_or_are_no_arrays_are_refused(what, tmp_path):
    path = spoiled(what, tmp_path / "a.h5")
    with pytest.raises((DataError, OutOfMemoryError)) as error:
        FAMILIES["dataset"]["tff_hdf5"](path=str(path))
    assert SPOILED[what] in str(error.value)
