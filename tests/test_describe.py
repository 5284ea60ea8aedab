"""`fedsim data describe`: every form of data that there is, told by what lies there, counted, and read by the printed section."""

import gzip
import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from encoded import FORM, classes, encoded, image_column, parquets, saved_splits, typed
from test_image_files import as_idx, binary, records

from fedsim.build.federation import federations_of
from fedsim.cli import cli
from fedsim.compose import FAMILIES
from fedsim.errors import DataError, ScenarioError
from fedsim.runs.description import describe
from fedsim.scenario import read
from fedsim.sources import sha256_of_data
from fedsim.sources.formats import FORMATS, kind_of

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (40, 8, 8), np.uint8)
LABELS = np.arange(40, dtype=np.uint8) % 4


def as_npz(folder):
    np.savez(folder / "w.npz", x=PIXELS / 255, y=LABELS, client=np.repeat(["b", "a", "c", "d"], [10, 5, 15, 10]))
    return folder / "w.npz"


def as_medmnist(folder):
    arrays = {f"{part}_images": PIXELS for part in ("train", "val", "test")}
    np.savez_compressed(
        folder / "m.npz", **arrays, **{f"{part}_labels": LABELS[:, None] for part in ("train", "val", "test")}
    )
    return folder / "m.npz"


def frame():
    return pd.DataFrame(
        {
            "seen": "2024-05-01",
            "age": np.arange(40.0),
            "ill": np.where(LABELS > 1, "yes", "no"),
            "ward": LABELS.astype(str),
        }
    )


def as_csv(folder):
    frame().rename(columns={"ward": "user_id", "ill": "Label"}).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_parquet(folder):
    frame().drop(columns=["ill"]).assign(wage=np.linspace(1, 2, 40)).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def as_mnist(folder):
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(as_idx(PIXELS)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(as_idx(LABELS)))
    return folder


def as_cifar10(folder):
    for name in ("data_batch_1", "test_batch"):
        (folder / f"{name}.bin").write_bytes(binary(*records(30, 1, 10)))
    return folder


def as_cifar100(folder):
    (folder / "train.bin").write_bytes(binary(*records(30, 2, 20)))
    return folder


def images() -> pa.Table:
    table = pa.table({"image": image_column([encoded(image) for image in PIXELS]), "label": LABELS.astype(int)})
    return typed(table, {"image": FORM, "label": classes("ant", "bee", "cat", "dog")})


def as_saved(folder):
    return saved_splits({"train": images(), "test": images()}, folder)


def as_parquets(folder):
    return parquets({"train": images()}, folder)


def as_folders(folder):
    for i, image in enumerate(PIXELS):
        path = folder / f"train/{'abcd'[i % 4]}/{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(image))
    return folder


def as_leaf(folder):
    users = {"b": 15, "a": 25}
    data = {
        user: {"x": [[0.5, float(i)] for i in range(n)], "y": [i % 2 for i in range(n)]} for user, n in users.items()
    }
    for part in ("train", "test"):
        (folder / part).mkdir()
        text = json.dumps({"users": [*users], "num_samples": [*users.values()], "user_data": data})
        (folder / part / "all_data.json").write_text(text)
    return folder


FORMS = {
    "npz": (as_npz, "npz", {"clients": None}),
    "medmnist": (as_medmnist, "medmnist", {"clients": 8}),
    "csv": (as_csv, "csv", {"target": "Label", "client": "user_id", "clients": None}),
    "parquet": (as_parquet, "parquet", {"target": "wage", "clients": 4}),
    "idx": (as_mnist, "idx", {"clients": 4}),
    "cifar10": (as_cifar10, "cifar10", {"clients": 3}),
    "cifar100": (as_cifar100, "cifar100", {"clients": 3}),
    "save_to_disk": (as_saved, "huggingface", {"clients": 4}),
    "parquet files": (as_parquets, "huggingface", {"clients": 4}),
    "imagefolder": (as_folders, "imagefolder", {"clients": 4}),
    "leaf": (as_leaf, "leaf", {"clients": None}),
}


def made(form: str, folder) -> str:
    return str(FORMS[form][0](folder))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_told_and_its_section_reads_it(tmp_path, form):
    path, (_, kind, keys) = made(form, tmp_path), FORMS[form]
    told = json.loads(json.dumps(describe(path)))
    assert told["kind"] == kind and told["sha256"] == sha256_of_data(path) and told["bytes"] > 0
    section = yaml.safe_load(told["yaml"])["data"]
    assert section == told["data"] == {"kind": kind, "path": path, **{k: v for k, v in keys.items() if v is not None}}
    federation = next(iter(federations_of(read({"name": "x", "data": section}), None, np.dtype("float32")).values()))
    assert len(federation.y) + len(federation.y_test) == told["rows"] + told["test_rows"]
    assert list(federation.x.shape[1:]) == told["shape"] and str(federation.x.dtype) in ("float32", told["type"])
    if told["target"]["kind"] == "classes":
        assert list(map(str, federation.label_names)) == list(told["target"]["samples"])
        assert sum(told["target"]["samples"].values()) == told["rows"]


def test_counts(tmp_path):
    told = describe(made("npz", tmp_path))
    assert told["clients"] == {
        "count": 4,
        "smallest": {"id": "a", "samples": 5},
        "largest": {"id": "c", "samples": 15},
    }
    told = describe(made("parquet", tmp_path))
    assert told["target"] == {"kind": "numbers", "shape": [], "least": 1.0, "most": 2.0}
    assert told["features"] == ["seen", "age", "ward"] or told["features"][:2] == ["seen", "age"]


def test_blanks_are_counted_and_filled(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age,y\n" + "30,1.5\n,2.5\nNA,2.0\n" * 9)
    told = describe(str(path))
    assert told["missing"] == {"age": 18} and told["data"]["missing"] == "mean"
    assert describe(str(path), ["missing=drop"])["rows"] == 9
    x = np.where(np.arange(40.0)[:, None] > 37, np.nan, 1.0)
    np.savez(tmp_path / "w.npz", x=x, y=LABELS)
    assert describe(str(tmp_path / "w.npz"))["missing"] == {"feature 0": 2}
    np.savez(tmp_path / "w.npz", x=np.full((40, 1), np.inf), y=LABELS)
    with pytest.raises(DataError, match="x: row 0 is not finite"):
        describe(str(tmp_path / "w.npz"))


def test_keys_are_set_as_in_a_scenario(tmp_path):
    path = made("csv", tmp_path)
    told = describe(path, ["target=age", "data.drop=[Label]", "clients=7"])
    assert told["data"]["target"] == "age" and told["data"]["drop"] == ["Label"]
    assert told["notes"][0] == "client: user_id is a guess by name"
    with pytest.raises(ScenarioError, match=r"data\.tagret: unknown key; did you mean 'target'"):
        describe(path, ["tagret=age"])


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made("npz", tmp_path)
    shown = CliRunner().invoke(cli, ["data", "describe", "w.npz"]).output
    lines = dict(line.split(maxsplit=1) for line in shown.partition("\n\n")[0].splitlines())
    assert lines["samples"] == "40 to train on, none to test on: data.test of them are kept"
    assert lines["sample"] == "8 x 8, float64" and lines["target"] == "4 classes: 0 (10), 1 (10), 2 (10), 3 (10)"
    assert lines["clients"] == "4: smallest a with 5, largest c with 15 samples"
    assert yaml.safe_load(shown.partition("\n\n")[2]) == {"data": {"kind": "npz", "path": "w.npz"}}


def test_paths_are_written_from_the_working_directory(tmp_path, monkeypatch):
    path = made("npz", tmp_path)
    told = describe(path)
    assert told["data"]["path"] == path and told["notes"] == [
        f"a scenario elsewhere reads it with --data-root {tmp_path}"
    ]
    monkeypatch.chdir(tmp_path)
    told = describe(path)
    assert told["data"]["path"] == "w.npz" and told["notes"] == []


def test_a_table_with_images_is_a_set(tmp_path):
    as_parquets(tmp_path)
    with pytest.raises(
        DataError, match=r"column 'image': holds lists or records, .*; kind: huggingface reads images and"
    ):
        describe(str(tmp_path / "data/train-00000-of-00001.parquet"))


def test_every_kind_of_file_has_a_row():
    rows = {row.kind for row in FORMATS}
    known = {kind for kind, make in FAMILIES["dataset"].items() if "path" in make.__annotations__}
    assert {kind for kind in known if FAMILIES["dataset"][kind].__module__.startswith("fedsim.")} <= rows


@pytest.mark.parametrize(
    ("kind", "source"),
    [("idx", "yann.lecun.com/exdb/mnist"), ("cifar10", "www.cs.toronto.edu"), ("cifar100", "cifar-100-binary.tar.gz"),
     ("medmnist", "zenodo.org"), ("huggingface", "ds.save_to_disk(FOLDER)"), ("imagefolder", "CLASS/IMAGE.png"),
     ("leaf", "LEAF's preprocess.sh")],
)  # fmt: skip
def test_who_has_no_such_file_is_told_where_it_comes_from(kind, source, tmp_path):
    """Where there is nothing, and where there is a folder of something else."""
    with pytest.raises(ScenarioError) as error:
        federations_of(read({"name": "x", "data": {"kind": kind, "path": "none"}}), None, np.dtype("float32"))
    path, where = str(error.value).splitlines()
    assert "there is no file 'none'" in path and source in where and len(where) <= 300
    if kind != "medmnist":
        (tmp_path / "notes.txt").write_text("")
        with pytest.raises(DataError, match=r"MNIST|cifar-100?-binary|save_to_disk|CLASS/IMAGE|LEAF"):
            FAMILIES["dataset"][kind](path=str(tmp_path))


OTHER = {
    "w.pkl": "is pickled and could run anything; save its arrays: np.savez",
    "w.npy": "is a single array; save features and labels together",
    "cifar-10-python.tar.gz": "is packed; unpack it and describe its folder",
    "t.xlsx": "is a spreadsheet; save it as CSV",
    "data_batch_1": "pickled CIFAR-10, which could run anything; take the binary version, cifar-10-binary.tar.gz",
    "train-images-idx3-ubyte.gz": "is a file of a set of kind idx; describe its folder",
    "data-00000-of-00001.arrow": "is a file of a set of kind huggingface; describe its folder",
    "notes.docx": "no known form of data; known are medmnist .*, imagefolder",
}


@pytest.mark.parametrize("name", OTHER)
def test_other_files_get_a_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=OTHER[name]) as error:
        describe(str(tmp_path / name))
    assert len(error.value.lines) == 1


def test_a_file_of_leaf_is_a_part_of_its_folder(tmp_path):
    path = as_leaf(tmp_path) / "train/all_data.json"
    with pytest.raises(DataError, match=r"is a file of a set of kind leaf; describe its folder, .*/train"):
        describe(str(path))
    as_folders(tmp_path)
    for part in ("train", "test"):
        (tmp_path / part / "all_data.json").write_text('{"categories": 4}')
    assert kind_of(str(tmp_path)) == "imagefolder"  # JSON that describes images


def test_other_folders_get_a_line(tmp_path):
    with pytest.raises(DataError, match="no known form of data"):
        kind_of(str(tmp_path))
    for name in ("data_batch_1", "batches.meta", "test_batch"):
        (tmp_path / name).write_bytes(b"\x80")
    with pytest.raises(DataError, match=r"pickled and could run anything; unpack cifar-10-binary\.tar\.gz"):
        describe(str(tmp_path))
    (tmp_path / "out").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="'out' is a link that leads out of the folder"):
        kind_of(str(tmp_path))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"pipe\.csv: not a regular file"):
        describe(str(tmp_path / "pipe.csv"))
    with pytest.raises(FileNotFoundError):
        describe(str(tmp_path / "nothing"))


@pytest.mark.long
@pytest.mark.share(2)
@pytest.mark.parametrize("form", FORMS)
def test_a_scenario_with_the_section_is_checked(tmp_path, monkeypatch, form):
    (tmp_path / "set").mkdir()
    path = os.path.relpath(made(form, tmp_path / "set"), tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(f"name: x\n{describe(path)['yaml']}")
    done = CliRunner().invoke(cli, ["check", "s.yaml"])
    assert done.exit_code == 0, done.output
