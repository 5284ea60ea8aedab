"""`fedsim data describe`: every form is told, counted, and read by the printed section."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from encoded import FORM, classes, encoded, image_column, parquets, saved_splits, typed
from leaf_sets import written as leaf_written
from test_image_files import binary, mnist, records
from test_medmnist import kept, parts

from fedsim.assemble.federation import federations_of
from fedsim.cli import cli
from fedsim.errors import DataError, ScenarioError
from fedsim.runs.describe_data import describe
from fedsim.scenario import read
from fedsim.sources import sha256_of_data

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (40, 8, 8), np.uint8)
LABELS = np.arange(40, dtype=np.uint8) % 4


def as_npz(folder):
    client = np.repeat(["b", "a", "c", "d"], [10, 5, 15, 10])
    np.savez(folder / "w.npz", x=PIXELS / 255, y=LABELS, client=client)
    return folder / "w.npz"


FRAME = pd.DataFrame(
    {
        "seen": "2024-05-01",
        "age": np.arange(40.0),
        "Label": np.where(LABELS > 1, "yes", "no"),
        "user_id": LABELS.astype(str),
    }
)


def as_csv(folder):
    FRAME.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_parquet(folder):
    table = FRAME.drop(columns=["Label"]).rename(columns={"user_id": "ward"})
    table.assign(wage=np.linspace(1, 2, 40)).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def as_xlsx(folder):
    FRAME.rename(columns={"user_id": "site"}).to_excel(folder / "t.xlsx", index=False)
    return folder / "t.xlsx"


def as_cifar10(folder):
    for name in ("data_batch_1", "test_batch"):
        (folder / f"{name}.bin").write_bytes(binary(*records(30, 1, 10)))
    return folder


def as_cifar100(folder):
    (folder / "train.bin").write_bytes(binary(*records(30, 2, 20)))
    return folder


def images() -> pa.Table:
    pictures = image_column([encoded(image) for image in PIXELS])
    table = pa.table({"image": pictures, "label": LABELS.astype(int)})
    return typed(table, {"image": FORM, "label": classes("ant", "bee", "cat", "dog")})


def as_folders(folder):
    for i, image in enumerate(PIXELS):
        path = folder / f"train/{'abcd'[i % 4]}/{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(image))
    return folder


def as_leaf(folder):
    users = {
        user: ([[0.5, float(i)] for i in range(n)], [i % 2 for i in range(n)])
        for user, n in {"b": 15, "a": 25}.items()
    }
    for part in ("train", "test"):
        leaf_written(folder, part, users)
    return folder


FORMS = {
    "npz": (as_npz, "npz", {}),
    "medmnist": (lambda f: kept(f, parts(8, 8)), "medmnist", {"clients": 1}),
    "csv": (as_csv, "csv", {"target": "Label", "client": "user_id", "drop": ["seen"]}),
    "parquet": (as_parquet, "parquet", {"target": "wage", "clients": 4, "drop": ["seen"]}),
    "xlsx": (as_xlsx, "xlsx", {"target": "Label", "client": "site", "drop": ["seen"]}),
    "idx": (mnist, "idx", {"clients": 1}),
    "cifar10": (as_cifar10, "cifar10", {"clients": 3}),
    "cifar100": (as_cifar100, "cifar100", {"clients": 3}),
    "save_to_disk": (lambda f: saved_splits({"train": images()}, f), "huggingface", {"clients": 4}),
    "parquet files": (lambda f: parquets({"train": images()}, f), "huggingface", {"clients": 4}),
    "imagefolder": (as_folders, "imagefolder", {"clients": 4}),
    "leaf": (as_leaf, "leaf", {}),
}


def federation_of(section):
    return federations_of(read({"name": "x", "data": section}), None, np.dtype("float32"))[0]


def made(form: str, folder) -> str:
    return str(FORMS[form][0](folder))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_told_and_its_section_reads_it(tmp_path, form):
    path, (_, kind, keys) = made(form, tmp_path), FORMS[form]
    told = json.loads(json.dumps(describe(path)))
    assert told["kind"] == kind and told["sha256"] == sha256_of_data(path) and told["bytes"] > 0
    section = yaml.safe_load(told["yaml"])["data"]
    assert section == told["data"] == {"kind": kind, "path": path, **keys}
    federation = federation_of(section)
    assert len(federation.train.y) + len(federation.test.y) == told["rows"] + told["test_rows"]
    assert list(federation.train.x.shape[1:]) == told["shape"]
    assert str(federation.train.x.dtype) in ("float32", told["type"])
    if told["target"]["kind"] == "classes":
        assert list(map(str, federation.label_names)) == list(told["target"]["samples"])
        assert sum(told["target"]["samples"].values()) == told["rows"]


def test_a_target_of_numbers_has_a_range_and_dates_are_left_out(tmp_path):
    told = describe(made("parquet", tmp_path))
    assert told["target"] == {"kind": "numbers", "shape": [], "least": 1.0, "most": 2.0}
    left_out = "dates are left out (seen); dates: ordinal makes days since 1970 of them"
    assert left_out in told["notes"] and told["features"][0] == "age"


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


def test_ids_of_samples_are_no_clients(tmp_path):
    """A column with another value in every row is passed over for one that repeats."""
    path = tmp_path / "t.csv"
    rows = [f"p{row},{'AB'[row % 2]},{row / 2},{row % 3}" for row in range(30)]
    path.write_text("patient,hospital,age,y\n" + "\n".join(rows))
    told = describe(str(path), ["drop=[patient]"])
    assert told["data"]["client"] == "hospital" and told["clients"]["count"] == 2


def test_texts_are_told_how_they_are_read(tmp_path):
    (tmp_path / "books").mkdir()
    (tmp_path / "books/anna.txt").write_text("by the sea")
    with pytest.raises(DataError, match="is a folder of texts; write them into one table"):
        describe(str(tmp_path / "books"))
    path = tmp_path / "t.csv"
    path.write_text("author,text\n" + "".join(f"a,line {row}\n" for row in range(200)))
    assert any("{kind: text, path: " in note for note in describe(str(path))["notes"])


def test_keys_are_set_as_in_a_scenario(tmp_path):
    path = made("csv", tmp_path)
    told = describe(path, ["target=age", "data.drop=[Label]", "clients=7"])
    assert told["data"]["target"] == "age" and told["data"]["drop"] == ["Label"]
    assert told["notes"][0] == "client: user_id is guessed from its name"
    with pytest.raises(ScenarioError, match=r"data\.tagret: unknown key; did you mean 'target'"):
        describe(path, ["tagret=age"])


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made("npz", tmp_path)
    shown = CliRunner().invoke(cli, ["data", "describe", "w.npz"]).output
    lines = dict(line.split(maxsplit=1) for line in shown.partition("\n\n")[0].splitlines())
    assert lines["samples"] == "40 to train on, none to test on: data.test of them are held out"
    assert lines["sample"] == "8 x 8, float64"
    assert lines["target"] == "4 classes: 0 (10), 1 (10), 2 (10), 3 (10)"
    assert lines["clients"] == "4: smallest a with 5, largest c with 15 samples"
    assert yaml.safe_load(shown.partition("\n\n")[2]) == {"data": {"kind": "npz", "path": "w.npz"}}


def test_paths_are_written_from_the_working_directory(tmp_path, monkeypatch):
    path = made("npz", tmp_path)
    told = describe(path)
    assert told["data"]["path"] == path
    assert told["notes"] == [f"a scenario elsewhere reads it with --data-root {tmp_path}"]
    monkeypatch.chdir(tmp_path)
    told = describe(path)
    assert told["data"]["path"] == "w.npz" and told["notes"] == []


def test_a_table_with_images_is_a_set(tmp_path):
    parquets({"train": images()}, tmp_path)
    told = describe(str(tmp_path / "data/train-00000-of-00001.parquet"))
    (line,) = told["problems"]
    assert line.startswith("column 'image': holds lists or records, ")
    assert "kind: huggingface reads images and" in line
    assert [column["name"] for column in told["summary"]] == ["label"]


def test_who_has_no_such_file_is_told_where_it_comes_from():
    with pytest.raises(ScenarioError) as error:
        federation_of({"kind": "medmnist", "path": "none"})
    path, where = str(error.value).splitlines()
    assert "there is no file 'none'" in path and "zenodo.org" in where and len(where) <= 300
