"""Users' tables: what is read or refused, names, and which samples fill and scale features."""

import gzip

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.assemble.sample_notes import data_warnings
from fedsim.cli.partition import print_partition
from fedsim.data import Arrays, prepare
from fedsim.data.completion import scale_remark
from fedsim.disk import tables
from fedsim.errors import DataError
from fedsim.scenario import read
from fedsim.sources import columns, csv, npz, parquet
from fedsim.sources.arrays import Names
from fedsim.sources.table_keys import TableKeys
from fedsim.study.label_skew import counts_of_rows, heterogeneity

F32, F64 = np.dtype("float32"), np.dtype("float64")
SMALL = "age,colour,ill,ward\n30,red,yes,B\n40,blue,no,A\n50,red,no,B\n60,green,yes,A\n"


def table(folder, content: str | bytes, **options):
    path = folder / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return csv(str(path), **options)


def of_frame(frame: pd.DataFrame, **keys):
    return columns.of_frame(frame, TableKeys(**keys))


def refused(read_it, *arguments, **options) -> list[str]:
    with pytest.raises(DataError) as error:
        read_it(*arguments, **options)
    return [line.rpartition("t.csv: ")[2] for line in error.value.lines]


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
def test_delimiters_are_recognised(tmp_path, between):
    lines = SMALL.replace(",", between).replace(f"red{between}", f'"red{between}ish"{between}')
    got = table(tmp_path, lines, target="ill", client="ward")
    assert got.features == ("age", "colour=blue", "colour=green", f"colour=red{between}ish")
    assert got.x.tolist() == [[30, 0, 0, 1], [40, 1, 0, 0], [50, 0, 0, 1], [60, 0, 1, 0]]
    assert got.y.tolist() == ["yes", "no", "no", "yes"]
    assert got.client.tolist() == ["B", "A", "B", "A"]


SNIFFED = {
    "a header with commas": ('"price, EUR";"y"\n"1";"0"\n"2";"1"\n', ["price, EUR"]),
    "texts with all of them": ('t,y\n"a, b; c | d",0\ne,1\n', ["t=a, b; c | d", "t=e"]),
    "apostrophes": ("t,y\nit's,0\n'tis,1\n", ["t='tis", "t=it's"]),
    "blank cells": ("a,b,c,y\n1,2,3,1\n1,,2,0\n,3,,1\n", ["a", "b", "c"]),
    "a time": ("t,a,y\n10:00,2,0\n11:00,1,1\n", ["t=10:00", "t=11:00", "a"]),
    "a single row": ("a;y\n1;0\n", ["a"]),
}


@pytest.mark.parametrize("what", SNIFFED)
def test_a_delimiter_is_told_from_the_same_character_in_texts(what, tmp_path):
    content, features = SNIFFED[what]
    assert list(table(tmp_path, content, missing="mean").features) == features


def test_other_delimiters_are_named(tmp_path):
    colons = "a:y\n1:0\n2:1\n"
    assert table(tmp_path, colons, delimiter=":").x.tolist() == [[1], [2]]
    assert refused(table, tmp_path, colons) == ["target: no column 'y'; there are 'a:y'"]


def test_decimal_commas_are_asked_for(tmp_path):
    """They are never taken for text, nor points for them; the delimiter is another character."""
    rows = "a;n;y\n1,5;2;0\n2;2,5;1\n,5;1;0\n"
    assert refused(table, tmp_path, rows) == [
        "column 'a': '1,5' has a decimal comma, or one between thousands; write decimal: ',', or "
        "1234.5",
        "row 3, column 'n': '2,5' is not a number",
    ]
    assert table(tmp_path, rows, decimal=",").x.tolist() == [[1.5, 2], [2, 2.5], [0.5, 1]]
    assert refused(table, tmp_path, rows.replace(";", ","), decimal=",", delimiter=",") == [
        "decimal: ',' is also the delimiter; change one of them"
    ]
    assert refused(table, tmp_path, rows + "1.500,5;2;1\n", decimal=",") == [
        "row 5, column 'a': '1.500,5' is not a number"
    ]
    tags = table(tmp_path, "a;tags;y\n1;x,y;0\n2;1,2;1\n3;z;0\n")
    assert list(tags.features) == ["a", "tags=1,2", "tags=x,y", "tags=z"]


def test_gzip_is_unpacked(tmp_path):
    got = table(tmp_path, gzip.compress(SMALL.encode()), target="ill", drop=["colour", "ward"])
    assert got.x.tolist() == [[30], [40], [50], [60]] and got.client is None


def test_gzip_that_unpacks_to_too_much_is_refused_long_before_its_end(tmp_path):
    ones = gzip.compress(b"1" * (4 << 20))  # a thousandth
    bomb = gzip.compress(b"a,y\n") + 400 * ones
    (line,) = refused(table, tmp_path, bomb)
    unpacked = int(line.partition("more than ")[2].split()[0])
    assert unpacked < 200 * len(bomb) / 4


def test_blanks_and_text_by_rule(tmp_path):
    rows = "a,b,y\n1, x ,0\nNA,y,1\n?,,0\n5,x,1\n"
    assert refused(table, tmp_path, rows) == [
        "row 3, column 'a': blank; write missing: mean, median or drop",
        "row 4, column 'a': blank; write missing: mean, median or drop",
        "row 4, column 'b': blank; write missing: mean, median or drop",
    ]
    filled = table(tmp_path, rows, missing="mean")
    assert filled.features == ("a", "b=x", "b=y", "b=(blank)")
    np.testing.assert_array_equal(
        filled.x, [[1, 1, 0, 0], [np.nan, 0, 1, 0], [np.nan, 0, 0, 1], [5, 1, 0, 0]]
    )
    kept = table(tmp_path, rows, missing="drop")
    assert kept.features == ("a", "b=x")
    assert kept.x.tolist() == [[1, 1], [5, 1]] and kept.y.tolist() == [0, 1]


def test_all_errors_of_a_table_at_once(tmp_path):
    rows = 'a,b,client,y\n1,2,k,0\nx,inf,k,1\n1,2,k\n3,4,,2\n5,"1,5",k,cat\n6,,k,NA\n'
    assert refused(table, tmp_path, rows) == [
        "row 3, column 'a': 'x' is not a number",
        "row 3, column 'b': inf cannot be a feature",
        "row 4, column 'y': a sample without a label; write missing: drop to leave such rows out",
        "row 5, column 'client': a sample without a client id",
        "row 6, column 'b': '1,5' is not a number",
        "row 6, column 'y': 'cat' is not a number, but most labels are",
        "row 7, column 'b': blank; write missing: mean, median or drop",
        "row 7, column 'y': a sample without a label; write missing: drop to leave such rows out",
    ]
    many = refused(table, tmp_path, "a,y\n" + "1,0\n" * 2000 + "x,0\n" * 1500)
    assert len(many) == 21
    assert many[0].startswith("row 2002") and many[-1] == "and 1,480 more problems"
    lines = refused(table, tmp_path, "a,y\n1,0\n", target="z", client="k", drop=["b"])
    assert [line.split(":")[0] for line in lines] == ["target", "client", "drop"]


def test_a_column_of_many_texts_is_refused_with_what_to_do(tmp_path):
    rows = "a,name,y\n" + "".join(f"{i},person {i},0\n" for i in range(101))
    assert refused(table, tmp_path, rows) == [
        "column 'name': more than 100 different texts, too many for one-hot features; "
        "write drop: ['name'], or client: 'name' if it says whose a sample is"
    ]
    assert table(tmp_path, rows, client="name").client[7] == "person 7"


def test_rows_are_counted_as_a_spreadsheet_does(tmp_path):
    rows = 'a,b,y\n1,"two\nlines",0\n\n1,"x\n\ny",0\nbad,z,1\n'
    assert refused(table, tmp_path, rows) == ["row 5, column 'a': 'bad' is not a number"]


def test_frames_are_read_as_files_are(tmp_path):
    ages, colours = [30, 40.5, None], ["red", None, "blue"]
    frame = pd.DataFrame(
        {"age": ages, 5: [True, False, True], "colour": colours, "y": [1.0, np.nan, 0.0]}
    )
    assert refused(of_frame, frame)[:2] == [
        "row 1, column 'colour': blank; write missing: mean, median or drop",
        "row 1, column 'y': a sample without a label; write missing: drop to leave such rows out",
    ]
    kept = of_frame(frame.assign(age=[1, 2, 3]), missing="drop")
    assert kept.features == ("age", "5", "colour=blue", "colour=red")
    assert kept.x.tolist() == [[1, 1, 0, 1], [3, 1, 1, 0]]
    assert kept.y.tolist() == [1, 0] and kept.y.dtype.kind == "i"
    truths = of_frame(frame.assign(y=[True, False, True]), missing="mean")
    assert truths.y.tolist() == ["True", "False", "True"]
    path = tmp_path / "t.parquet"
    frame.assign(y=["a", "b", "a"], client=[20, 10, 20]).rename(columns=str).to_parquet(path)
    got = parquet(str(path), missing="mean")
    assert got.y.tolist() == ["a", "b", "a"] and got.client.tolist() == [20, 10, 20]
    assert np.isnan(got.x[2, 0])
    pd.DataFrame({"image": [[1, 2], [3, 4]], "y": [0, 1]}).to_parquet(path)
    with pytest.raises(DataError, match=r"t\.parquet: column 'image': holds lists"):
        parquet(str(path))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"t\.parquet: not a sound parquet file"):
        parquet(str(path))


# --------------------------------------------------------------------------- statistics of training


def test_blanks_and_scales_are_those_of_the_training_samples():
    rng = np.random.default_rng(0)
    x = np.column_stack(
        [rng.normal(5, 30, 60), np.full(60, 7.1), rng.integers(0, 2, 60), rng.normal(size=60)]
    )
    x[rng.random(60) < 0.3, 0] = np.nan
    y, split = rng.integers(0, 2, 60), {"test": 0.3, "validation": 0.2, "seed": 3, "dtype": F64}
    raw = prepare(Arrays(x, y), **split, missing="mean")[0]
    for missing, centre in (("mean", np.nanmean), ("median", np.nanmedian)):
        sets = prepare(Arrays(x, y), **split, missing=missing, standardize=True)[0]
        rows = [np.flatnonzero(x[:, 3] == value)[0] for value in raw.train.x[:, 3]]
        train = x[rows]
        known = train[~np.isnan(train[:, 0]), 0]
        for name in ("train", "test", "validation"):
            part = getattr(sets, name).x
            place = [np.flatnonzero(x[:, 3] == value)[0] for value in getattr(raw, name).x[:, 3]]
            want = np.where(np.isnan(x[place, 0]), centre(train[:, 0]), x[place, 0])
            np.testing.assert_allclose(part[:, 0], (want - known.mean()) / known.std(), rtol=1e-12)
            assert (part[:, 1] == 0).all()  # constant
            assert np.array_equal(part[:, 2], x[place, 2])  # 0 and 1


@pytest.mark.parametrize("missing", ["mean", "median"])
def test_test_and_validation_samples_never_leak(missing):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    x[::7, 1] = np.nan
    split = {"test": 0.25, "validation": 0.25, "server": 5, "seed": 0, "dtype": F32}
    filling = {"missing": missing, "standardize": True}
    one = prepare(Arrays(x, y), **split, **filling)[0]
    marked = prepare(Arrays(np.arange(80.0)[:, None], y), **split)[0]
    apart = np.concatenate([marked.test.x, marked.validation.x, marked.server.x])
    others = apart.ravel().astype(int)
    changed = x.copy()
    changed[others] = 1e6 * rng.normal(size=(len(others), 3))
    two = prepare(Arrays(changed, y), **split, **filling)[0]
    assert np.array_equal(one.train.x, two.train.x) and not np.array_equal(one.test.x, two.test.x)


def test_archives_and_maps_are_completed_too(tmp_path):
    x = np.array([[1.0, np.nan], [3.0, 2.0], [5.0, 4.0], [7.0, 6.0]])
    np.savez(tmp_path / "w.npz", x=x, y=np.array(["b", "a", "b", "a"]))
    with pytest.raises(DataError, match="x: row 0 is not finite"):
        npz(str(tmp_path / "w.npz"))
    got = npz(str(tmp_path / "w.npz"), missing="mean")
    x.tofile(tmp_path / "x.bin")
    mapped = got._replace(x=np.memmap(tmp_path / "x.bin", np.float64, "r", shape=(4, 2)))
    for arrays in (got, mapped):
        sets = prepare(arrays, test=0.0, seed=0, dtype=F64, missing="mean", standardize=True)[0]
        np.testing.assert_allclose(sets.train.x[:, 0], (x[:, 0] - 4) / np.sqrt(5))
        assert sets.train.x[0, 1] == 0 and sets.names.labels == ("a", "b")
        np.testing.assert_array_equal(arrays.x, x)  # a user's array is not written to


def test_no_rows_are_no_samples(tmp_path):
    assert refused(of_frame, pd.DataFrame({"a": [], "y": []})) == ["no samples"]
    assert refused(table, tmp_path, "a,y\n,0\n1,\n", missing="drop") == ["every sample has a blank"]


def test_a_feature_without_numbers_is_named():
    x = np.array([[1.0, np.nan], [3.0, np.nan]])
    with pytest.raises(DataError, match="feature 1: blank in all training samples"):
        prepare(Arrays(x, np.array([0, 1])), test=0.0, seed=0, dtype=F32, missing="median")


def test_rows_with_blanks_are_dropped_from_arrays_too():
    x, y = np.array([[1.0], [np.nan], [3.0]]), np.array(["b", "c", "a"])
    sets, classes = prepare(Arrays(x, y, None, x, y), test=0.0, seed=0, dtype=F32, missing="drop")
    assert sets.train.x.tolist() == sets.test.x.tolist() == [[1], [3]]
    assert sets.train.y.tolist() == [1, 0]
    assert classes == 2 and sets.names.labels == ("a", "b")


# ---------------------------------------------------------------------------------- names that stay


def federation(data, **section):
    scenario = read({"name": "s", "data": {"kind": "supplied", "test": 0, **section}})
    return scenario, federations_of(scenario, data, F32)[0]


WARDS = Arrays(
    np.eye(4), np.array(["well", "ill", "well", "ill"]), client=np.array(["=b()", "a", "=b()", "a"])
)


def test_names_of_labels_and_clients_stay(capsys):
    _, f = federation(WARDS)
    assert f.names == Names(("ill", "well"), ("=b()", "a"), None)
    rows = heterogeneity(f).rows
    assert rows == {"client": ["=b()", "a"], "label": ["well", "ill"], "samples": [2, 2]}
    assert (
        tables.to_csv([rows], tables.PARTITION) == "client,label,samples\n'=b(),well,2\na,ill,2\n"
    )
    print_partition(heterogeneity(f))
    printed = capsys.readouterr().out
    assert "=b()" in printed and "100 % label well" in printed
    _, dealt = federation(WARDS, partition="iid", clients=2)
    assert dealt.client_names.tolist() == [0, 1] and dealt.label_names == ["ill", "well"]


def test_names_are_part_of_what_a_run_is():
    one = federation(WARDS)[1].fingerprint()
    other = federation(WARDS._replace(client=np.array(["=c()", "a", "=c()", "a"])))[1].fingerprint()
    assert one["data"] == other["data"] and one["partition"] != other["partition"]
    labels = federation(WARDS._replace(y=np.array(["z", "ill", "z", "ill"])))[1].fingerprint()
    assert one["data"] != labels["data"] and one["partition"] == labels["partition"]


def test_names_come_back_from_tables(tmp_path):
    rows = {"client": ["007", "08", "=x"], "label": ["1e3", "b", "b"], "samples": [1, 2, 3]}
    (tmp_path / "partition.csv").write_text(tables.to_csv([rows], tables.PARTITION))
    again = tables.read_table(tmp_path, "partition")
    assert again["client"].tolist() == ["007", "08", "=x"]
    assert again["label"].tolist() == ["1e3", "b", "b"]
    counts = counts_of_rows(again, clients=["007", "08", "09", "=x"])
    assert counts.clients.tolist() == ["007", "08", "09", "=x"]
    assert counts.sizes.tolist() == [1, 2, 0, 3]


def test_keys_that_name_columns_need_columns():
    said = r"data\.target: names a column, and the samples are arrays"
    with pytest.raises(fedsim.ScenarioError, match=said):
        federation(WARDS, target="ill")
    frame = pd.DataFrame({"a": [1.0, 2.0], "outcome": ["x", "y"]})
    assert federation(frame, target="outcome", clients=2)[1].label_names == ["x", "y"]


# ------------------------------------------------------------------------------------------ remarks


def test_scales_that_differ_by_orders_get_a_remark():
    x = np.column_stack([np.linspace(0, 4000, 9), np.linspace(0, 0.03, 9), np.ones(9)]).astype("f4")
    assert scale_remark(x, ("area", "error", "one")) == (
        "features differ in scale (column 'area' ranges over 4e+03, column 'error' over 0.03), "
        "which slows training; try data.standardize: true"
    )
    sparse = np.zeros((1000, 2), np.float32)
    sparse[0, 0], sparse[:500, 1] = 255, 255
    one_feature, a_constant, images = x[:, :1], x[:, 2:], x.reshape(9, 3, 1)
    for features in (one_feature, a_constant, x[:0], images, sparse):  # pixels have one range
        assert scale_remark(features, None) == ""
    for section, count in (({}, 1), ({"standardize": True}, 0)):
        scenario, f = federation(Arrays(x, np.arange(9) % 2), clients=2, **section)
        assert len(data_warnings(scenario, f)) == count


@pytest.mark.parametrize(
    ("y", "remark"),
    [
        (np.arange(12) % 3, ""),
        (np.arange(12) % 3 + 1, "labels run from 1 to 3, and the model has a class 0 as well"),
        (np.arange(12) % 3 + 3.0, ""),  # grades are numbers
        (np.ones((12, 2)), ""),
    ],
)
def test_classes_without_samples_get_a_remark(y, remark):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    scenario, f = federation(Arrays(x, y), clients=2, partition="iid", test=0.5)
    remarks = data_warnings(scenario, f)
    assert len(remarks) == bool(remark)
    assert all(text.startswith(remark) for text in remarks)


# ------------------------------------------------------------------- what may not be meant, is said


def test_a_frame_without_test_samples_is_told():
    frame = pd.DataFrame({"a": np.arange(12) % 5 / 4, "y": np.arange(12) % 2})
    scenario = read({"name": "s", "data": {"kind": "supplied", "clients": 2}})
    (line,) = data_warnings(scenario, federations_of(scenario, frame, F32)[0])
    assert line.startswith("no samples are held out to test on") and "data.test: 0.2" in line
    assert not data_warnings(*federation(frame, clients=2))  # test: 0 is written


def test_many_whole_numbers_are_said_to_be_classes():
    wages = Arrays(np.eye(93), np.arange(93) % 31)
    (line,) = data_warnings(*federation(wages, clients=2))
    assert line.startswith("labels are whole numbers up to 30, learned as 31 classes")
    assert line.endswith("data.task: regression")
    for task in ("classification", "regression"):
        assert data_warnings(*federation(wages, clients=2, task=task)) == []


TARGETS = [  # cells, the kinds of numbers they are without a task, as classes, for regression
    (["0", "1", "2", "1"], "iif", "whole"),
    (["0.0", "1.0", "2.0", "1.0"], "fif", "decimals"),
    (["0.0", "1.0", "", "1.0"], "iif", "beside blanks"),
    (["0.5", "1.0", "2.0", "1.0"], "f f", "halves, which are no classes"),
]


@pytest.mark.parametrize(
    ("cells", "kinds"), [row[:2] for row in TARGETS], ids=[row[2] for row in TARGETS]
)
def test_a_target_is_the_same_in_every_format(cells, kinds, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{row / 8},{cell}\n" for row, cell in enumerate(cells)))
    frame = pd.read_csv(path)
    frame.to_parquet(tmp_path / "t.parquet")
    sources = ((csv, str(path)), (of_frame, frame), (parquet, str(tmp_path / "t.parquet")))
    for task, kind in zip((None, "classification", "regression"), kinds, strict=True):
        for reader, source in sources:
            if kind == " ":
                with pytest.raises(DataError, match=r"column 'y': 0\.5: classes are 0, 1, 2"):
                    reader(source, missing="drop", task=task)
                continue
            y = reader(source, missing="drop", task=task).y
            assert y.dtype.kind == kind and y.tolist() == [float(cell) for cell in cells if cell]


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (np.array([0, 1, 1, 0], object), None, 2),
        (np.array([0.5, 1, 1, 0], object), None, 0),
        (np.eye(2)[[0, 1, 1, 0]], "classification", 2),
        (np.array([[0.0], [1.0], [1.0], [0.0]]), "classification", 2),
        (np.array([-1, 1, 1, 0]), "regression", 0),
    ],
)
def test_labels_of_arrays_are_what_the_task_says(y, task, classes):
    _, f = federation((np.eye(4).astype(object), y), clients=2, task=task)
    assert f.classes == classes and f.train.x.dtype == F32
