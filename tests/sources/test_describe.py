"""`fedsim data describe`: every format is recognised, counted, and read by the printed section."""

import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from conftest import own_kinds_of
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
from fedsim.sources.formats import FORMATS, kind_of

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


def summary(path, *edits) -> tuple[dict, dict]:
    told = describe(str(path), edits)
    assert json.loads(json.dumps(told)) == told
    return told, {column["name"]: column for column in told["summary"]}


def counts(column: dict) -> list:
    return [column[key] for key in ("type", "blanks", "distinct", "least", "most")]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_columns_of_a_table_are_summarised(tmp_path, form):
    cells = {
        "whole": [3, -1, 3, 2],
        "share": [0.5, None, 1.5, 0.25],
        "seen": ["2024-05-01", "2024-05-03T06:00", None, "2023-01-01"],
        "word": ["b", "a", None, "b"],
        "none": [None] * 4,
        "y": [0, 1, 0, 1],
    }
    if form == "parquet":
        cells["seen"] = pd.to_datetime(cells["seen"], format="ISO8601")
    getattr(pd.DataFrame(cells), f"to_{form}")(tmp_path / f"t.{form}", index=False)
    told, columns = summary(tmp_path / f"t.{form}", "drop=[none]", "dates=ordinal")
    assert told["problems"] == [] and told["rows"] == 4 and told["missing"]["share"] == 1
    assert {name: counts(column) for name, column in columns.items()} == {
        "whole": ["whole numbers", 0, 3, -1, 3],
        "share": ["numbers", 1, 3, 0.25, 1.5],
        "seen": ["dates", 1, 3, "2023-01-01", "2024-05-03T06:00:00"],
        "word": ["text", 1, 2, "a", "b"],
        "none": ["blank", 4, 0, None, None],
        "y": ["whole numbers", 0, 2, 0, 1],
    }


def test_a_named_index_of_a_frame_is_a_column(tmp_path):
    table = pd.DataFrame({"a": [1, 2, 3], "y": [0, 1, 0]}, pd.Index([5, 6, 7], name="row"))
    table.to_parquet(tmp_path / "t.parquet")
    assert list(summary(tmp_path / "t.parquet")[1]) == ["a", "y", "row"]


def of_targets(*targets) -> str:
    return "a,y\n" + "".join(f"1,{target}\n" for target in targets)


WORDS = "a,b,y\nx,1,0\n1,x,0\n2,2,1\n3,3,1\n"
DAYS, IDS = ["2024-05-01", "2024-05-02"], [f"u{i}" for i in range(101)]
UNSOUND = {  # what it is -> the table, and how each line about it starts
    "two columns": (WORDS, "row 2, column 'a': 'x' is not", "row 3, column 'b': 'x' is not"),
    "huge numbers": (f"a,y\n{'9' * 400},0\n1,1\n", "row 2, column 'a': inf cannot be a feature"),
    "no rows": (of_targets(), "no samples"),
    "a timestamp": (of_targets(1714521600), "column 'y': one whole number up to 1,714,521,600 as "),
    "dates": (of_targets(*DAYS), "column 'y': 2 different texts as classes of 2 samples: dates,"),
    "ids": (of_targets(*range(101)), "column 'y': 101 different whole numbers up to 100 as "),
    "ids in text": (of_targets(*IDS), "column 'y': 101 different texts as classes of "),
}


@pytest.mark.parametrize("title", UNSOUND)
def test_a_table_of_which_no_samples_can_be_made_is_described(tmp_path, title):
    """One line for each column that is wrong, what its columns hold all the same, and success."""
    content, *problems = UNSOUND[title]
    (tmp_path / "t.csv").write_text(content)
    told, columns = summary(tmp_path / "t.csv")
    for line, start in zip(told["problems"], problems, strict=True):
        assert line.startswith(start)
    assert len(columns) >= 1 and told["shape"] is None and told["data"]["kind"] == "csv"
    done = CliRunner().invoke(cli, ["data", "describe", str(tmp_path / "t.csv")])
    assert done.exit_code == 0, done.output
    assert all(line.isprintable() for line in done.output.splitlines()), done.output
    printed = " ".join(done.output.split())  # on lines of the terminal's width
    assert all(line in printed for line in told["problems"])
    with pytest.raises(DataError):  # it is refused when it is to be trained on
        federation_of(told["data"])


def test_decimal_commas_are_told_and_the_key_reads_them(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;wage\n1,5;x;1,25\n2;y;-3,5\n;x;2\n3,25;y;1\n")
    (line, *_) = summary(tmp_path / "t.csv", "target=wage")[0]["problems"]
    assert line.startswith("column 'a': '1,5' has a decimal comma")
    told, columns = summary(tmp_path / "t.csv", "target=wage", "decimal=','")
    assert counts(columns["a"]) == ["numbers", 1, 3, 1.5, 3.25] and told["target"]["least"] == -3.5


SUSPECT = {
    "number": (RNG.permutation(40) + 500, "has another whole number in each of 40 rows, as ids"),
    "name": ([f"p{row}" for row in range(40)], "has another text in each of 40 rows, as ids have"),
    "price": (["$1.23", "$4", "7"] * 13 + ["1"], "holds numbers with signs or separators ('$1.23'"),
    "rate": (["4.2%", "3%"] * 20, "holds numbers with signs or separators ('4.2%'), which are rea"),
    "age": (20 + np.arange(40) % 30, ""),
    "tag": ([f"{row % 9}cm" for row in range(40)], ""),
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_that_may_be_no_features_are_told_with_the_key(form, tmp_path):
    table = pd.DataFrame({name: cells for name, (cells, _) in SUSPECT.items()} | {"y": LABELS})
    getattr(table, f"to_{form}")(tmp_path / f"t.{form}", index=False)
    notes = describe(str(tmp_path / f"t.{form}"))["notes"]
    lines = [line for line in notes if line.startswith("column")]
    told = {name: said for name, (_, said) in SUSPECT.items() if said}
    for line, (name, said) in zip(lines, told.items(), strict=True):
        assert line.startswith(f"column {name!r} {said}") and line.endswith(f"drop: [{name!r}]")


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


def test_every_kind_of_file_has_a_row():
    rows = {row.kind for row in FORMATS}
    own = own_kinds_of("dataset").items()
    assert {kind for kind, make in own if "path" in make.__annotations__} <= rows


def test_who_has_no_such_file_is_told_where_it_comes_from():
    with pytest.raises(ScenarioError) as error:
        federation_of({"kind": "medmnist", "path": "none"})
    path, where = str(error.value).splitlines()
    assert "there is no file 'none'" in path and "zenodo.org" in where and len(where) <= 300


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
