"""Files and folders that `fedsim data describe` reads no samples from get a line."""

import os

import pytest
from conftest import own_kinds_of
from test_describe import as_folders, as_leaf

from fedsim.errors import DataError
from fedsim.runs.describe_data import describe
from fedsim.sources.formats import FORMATS, kind_of


def test_every_kind_of_file_has_a_row():
    rows = {row.kind for row in FORMATS}
    own = own_kinds_of("dataset").items()
    assert {kind for kind, make in own if "path" in make.__annotations__} <= rows


OTHER = {
    "w.pkl": "is pickled and could run anything; save its arrays: np.savez",
    "w.npy": "is a single array; save features and labels together",
    "cifar-10-python.tar.gz": "is packed; unpack it and describe its folder",
    "t.xls": r"is a spreadsheet of another format; save it as \.xlsx, or as CSV",
    "data_batch_1": "pickled CIFAR-10, which could run anything; download the binary version, "
    "cifar-10-binary.tar.gz",
    "train-images-idx3-ubyte.gz": "is a file of a set of kind idx; describe its folder",
    "data-00000-of-00001.arrow": "is a file of a set of kind huggingface; describe its folder",
    "notes.docx": "unknown data format; known are medmnist .*, imagefolder",
}


@pytest.mark.parametrize("name", OTHER)
def test_other_files_get_a_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=OTHER[name]) as error:
        describe(str(tmp_path / name))
    assert len(error.value.lines) == 1


def test_a_file_of_leaf_is_a_part_of_its_folder(tmp_path):
    (path,) = (as_leaf(tmp_path) / "train").glob("*.json")
    said = r"is a file of a set of kind leaf; describe its folder, .*/train"
    with pytest.raises(DataError, match=said):
        describe(str(path))
    as_folders(tmp_path)
    for path in tmp_path.glob("*/*.json"):
        path.write_text('{"categories": 4}')
    assert kind_of(str(tmp_path)) == "imagefolder"  # JSON that describes images


def test_other_folders_get_a_line(tmp_path):
    with pytest.raises(DataError, match="unknown data format"):
        kind_of(str(tmp_path))
    for name in ("data_batch_1", "batches.meta", "test_batch"):
        (tmp_path / name).write_bytes(b"\x80")
    said = r"pickled and could run anything; unpack cifar-10-binary\.tar\.gz"
    with pytest.raises(DataError, match=said):
        describe(str(tmp_path))
    (tmp_path / "out").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="'out' is a link that leads out of the folder"):
        kind_of(str(tmp_path))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"pipe\.csv: not a regular file"):
        describe(str(tmp_path / "pipe.csv"))
    with pytest.raises(FileNotFoundError):
        describe(str(tmp_path / "nothing"))
