"""Names that no table can hold: every reader refuses them in a line with file and entry."""

import os
import re

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workbooks
from conftest import own_kinds_of
from encoded import FORM, classes, encoded, image_column, saved, typed
from leaf_sets import written as leaf_written
from tff_sets import emnist
from tff_sets import written as tff_written

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.compose import FAMILIES
from fedsim.data import prepare
from fedsim.errors import DataError
from fedsim.scenario import read

LATIN = b"k\xe4se"  # ISO 8859-1
HALF, BEYOND = b"a\xed\xa0\x80", b"a\xf4\x90\x80\x80"  # U+D800; U+110000
ROWS = 30


def raw(*codes: int) -> np.ndarray:
    """Texts of an array, the last of these code points, which Python may not know."""
    values = np.full((ROWS, 2), ord("a"), np.uint32)
    values[-1] = codes
    return values.view("<U2").reshape(-1)


def npz(folder, **members):
    x, y = np.arange(2.0 * ROWS).reshape(ROWS, 2), np.arange(ROWS) % 2
    np.savez(folder / "w.npz", **{"x": x, "y": y, **members})
    return {"kind": "npz", "path": "w.npz"}


def table(folder, cell: bytes, header: bytes = b"ward", name="t.csv", **keys):
    cells = [b"b"] * (ROWS - 1) + [cell]
    rows = b"".join(b"%d,%d,%s\n" % (i, i % 2, cell) for i, cell in enumerate(cells))
    (folder / name).write_bytes(b"a,y," + header + b"\n" + rows)
    return {"kind": "csv", "path": name, **keys}


def arrow_clients(cell: bytes) -> pa.Array:
    """Texts of any bytes, as a writer that does not look gives them."""
    cells = pa.array([b"b"] * (ROWS - 1) + [cell], pa.binary())
    return pa.Array.from_buffers(pa.string(), ROWS, cells.buffers())


def parquet(folder, cell: bytes):
    columns = {"a": np.arange(ROWS), "y": np.arange(ROWS) % 2, "client": arrow_clients(cell)}
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return {"kind": "parquet", "path": "t.parquet"}


def workbook(folder, cell: bytes):
    """A workbook in which one of the shared texts has these bytes."""
    members: dict[str, str | bytes] = dict(workbooks.parts())
    texts = str(members["xl/sharedStrings.xml"]).encode()
    members["xl/sharedStrings.xml"] = texts.replace(b"<t>y</t>", b"<t>" + cell + b"</t>")
    workbooks.written(folder / "t.xlsx", members)
    return {"kind": "xlsx", "path": "t.xlsx"}


def client_of(path, name: bytes):
    """A file of examples of a client, h5py's way around."""
    tff_written(path, {"a": emnist(9)})
    with h5py.File(path, "r+") as file:
        client = file["examples"].create_group(name)
        for field, values in emnist(9).items():
            client[field] = values
    return {"kind": "tff_hdf5", "path": path.name}


def hub(folder, cell: bytes = b"b", names=("a", "b")):
    image = encoded(np.zeros((4, 4), np.uint8))
    columns = {
        "image": image_column([image] * ROWS),
        "label": np.arange(ROWS) % 2,
        "client": arrow_clients(cell),
    }
    saved(typed(pa.table(columns), {"image": FORM, "label": classes(*names)}), folder / "set")
    return {"kind": "huggingface", "path": "set"}


def images(folder, place: bytes):
    for part in (b"b", place):
        path = os.fsencode(folder) + b"/set/" + part
        os.makedirs(path)
        for i in range(ROWS):
            with open(path + b"/%d.png" % i, "wb") as file:
                file.write(encoded(np.full((4, 4), i, np.uint8)))
    return {"kind": "imagefolder", "path": "set"}


def leaf(folder, user="b", label: object = 1):
    x = [[0.5, 1.0]] * ROWS
    users = {"a": (x, [type(label)("0")] * ROWS), user: (x, [label] * ROWS)}
    leaf_written(folder / "set", "train", users)
    return {"kind": "leaf", "path": "set"}


def of_file(folder, kind: str):
    """A folder in which a file has a bad name."""
    (folder / "set").mkdir()
    with open(os.fsencode(folder) + b"/set/" + LATIN, "wb"):
        pass
    return {"kind": kind, "path": "set"}


CASES = {  # reader: what has the bad name -> what writes the file and gives its section
    "npz: client, half of a pair": lambda f: npz(f, client=raw(97, 0xD800)),
    "npz: client, beyond Unicode": lambda f: npz(f, client=raw(97, 0x110000)),
    "npz: client, bytes": lambda f: npz(f, client=np.array([b"b"] * (ROWS - 1) + [LATIN])),
    "csv: client": lambda f: table(f, LATIN, client="ward"),
    "text: client": lambda f: table(f, HALF, b"client") | {"kind": "text", "column": "a"},
    "parquet: client": lambda f: parquet(f, BEYOND),
    "xlsx: a shared text": lambda f: workbook(f, LATIN),
    "huggingface: client": lambda f: hub(f, HALF),
    "huggingface: ClassLabel": lambda f: hub(f, names=("a", "b\ud800")),
    "imagefolder: class": lambda f: images(f, LATIN),
    "leaf: user": lambda f: leaf(f, user="b\ud800"),
    "leaf: label": lambda f: leaf(f, label="b\udce4"),
    "idx: a file": lambda f: of_file(f, "idx"),
    "cifar10: a file": lambda f: of_file(f, "cifar10"),
    "cifar100: a file": lambda f: of_file(f, "cifar100"),
    "tff_hdf5: client": lambda f: client_of(f / "w.h5", LATIN),
}
NAMELESS = {"medmnist"}  # archives of numbers


def test_every_reader_of_files_has_a_case():
    own = own_kinds_of("dataset").items()
    read_files = {kind for kind, make in own if "path" in make.__annotations__}
    assert {title.partition(":")[0] for title in CASES} | NAMELESS == read_files


def one_line(error) -> str:
    (line,) = error.value.lines
    assert line.isprintable() and line.isascii() and len(line) < 500
    assert re.search(r"UTF-8|utf-8|Invalid UTF8|printable|unreadable", line), line
    return line


@pytest.mark.parametrize("title", CASES)
def test_a_bad_name_is_refused_where_data_are_read(title, tmp_path, monkeypatch):
    """Before anything is trained, with the file, and the entry."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    section = CASES[title](tmp_path / "here")
    scenario = read({"name": "x", "data": {**section, "test": 0.1}})
    with pytest.raises(DataError) as error:
        federations_of(scenario, None, np.dtype("float32"))
    assert one_line(error).startswith(section["path"].partition("/")[0])


def test_a_split_with_a_bad_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text('{"0": [0, 1], "b\\ud800": [2]}')
    with pytest.raises(DataError) as error:
        FAMILIES["partition"]["file"](path="s.json")
    assert one_line(error).startswith("s.json: client 'b")


@pytest.mark.parametrize(
    "name", ["client", "client_test", "y", "y_test", "labels", "features", "columns", "a column"]
)
def test_samples_of_a_program_are_no_exception(name):
    """Arrays of texts, and of objects."""
    n, bad = 4, ["a", "b", "c", "d\ud800"]
    x, y = np.eye(n), np.arange(n) % 2
    fields = {"x": x, "y": y, "x_test": x, "y_test": y, "client": list("abcd")}
    if name.startswith("y"):
        fields |= {"y": list("abab"), "y_test": list("abab")}
    fields |= {
        "a column": {"columns": {"site": bad}},
        "columns": {"columns": {"s\ud800": fields["y"]}},
    }.get(name, {name: bad})
    for kind in (str, object):
        typed = {k: np.array(v, kind) if v is bad else v for k, v in fields.items()}
        with pytest.raises(DataError, match=r"\\ud800' is not UTF-8 text"):
            prepare(fedsim.Arrays(**typed), test=0.0, seed=0, dtype=np.dtype("float32"))


def test_a_frame_is_no_exception():
    bad = pd.Series(["a", "b", "c", "d\ud800"], dtype=object)
    frame = pd.DataFrame({"x": range(4), "y": [0, 1, 0, 1], "client": bad})
    with pytest.raises(DataError, match=r"column 'client': row 3: 'd\\ud800'"):
        fedsim.run({"name": "own", "rounds": 1}, data=frame)
