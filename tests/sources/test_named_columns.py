"""A column that a partition names is no feature: it is read, counted, and drawn by the command."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from test_held_out import NAMES, ROWS, TESTED, federations

from fedsim.cli.partition import partition_command
from fedsim.errors import DataError, ScenarioError
from fedsim.study.label_skew import column_counts


def held_rows(f):
    """Numbers of the samples that every client trains on, of one feature."""
    return [f.train.x[f.holders.of(client), 0].astype(int) for client in range(f.N)]


def test_natural_by_a_column_that_the_arrays_bring():
    columns = {"ward": np.array(["n", "s"])[np.arange(100) % 2], "year": 2000 + np.arange(100) % 4}
    arrays = TESTED._replace(columns=columns)
    (f,) = federations(arrays, partition="natural(column=ward)").values()
    assert f.client_names.tolist() == ["n", "s"]
    assert not len(f.test_holders.indices) and len(f.test.x) == 30
    assert [set(rows % 2) for rows in held_rows(f)] == [{0}, {1}]
    arrays, half = ROWS._replace(columns=columns), {"clients": 0.5}
    (f,) = federations(arrays, partition="natural(column=year)", test=half).values()
    assert f.client_names.tolist() == [2000, 2001, 2002, 2003] and f.held_out.sum() == 2


TABLE = "age,ward,doctor,y\n" + "".join(f"{i},{'ns'[i % 2]},d{i % 5},{i % 3}\n" for i in range(60))


@pytest.mark.parametrize("source", ["csv", "frame", "parquet", "npz"])
def test_a_column_that_the_partition_names_is_no_feature(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(TABLE)
    frame = pd.read_csv(tmp_path / "w.csv")
    arrays, data = None, {"kind": source, "path": f"w.{source}", "columns": ["doctor"]}
    if source == "frame":
        arrays, data = frame, {"columns": ["doctor"]}
    elif source == "parquet":
        frame.to_parquet(tmp_path / "w.parquet")
    elif source == "npz":
        members = {name: frame[name].to_numpy(str) for name in ("ward", "doctor")}
        members |= {"x": frame[["age"]].to_numpy(float), "y": frame["y"].to_numpy()}
        np.savez(tmp_path / "w.npz", **members)
    data["test"] = 0
    (f,) = federations(arrays, **data, partition="natural(column=ward)").values()
    assert f.client_names.tolist() == ["n", "s"] and f.train.x.shape == (60, 1)
    (f,) = federations(arrays, **data, partition="domains(column=doctor)", clients=5).values()
    assert [len(set(rows % 5)) for rows in held_rows(f)] == [1] * 5
    if source != "npz":  # what no partition names is a feature
        assert f.names.features == ("age", "ward=n", "ward=s")
    (by_class,) = federations(arrays, **data, partition="natural(column=y)").values()
    assert by_class.N == 3 and (by_class.label_counts() > 0).sum() == 3
    with pytest.raises((DataError, ScenarioError), match=r"no (column|array) 'wart'"):
        federations(arrays, **data, partition="natural(column=wart)")


@pytest.mark.long
def test_the_command_draws_domains_by_their_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(TABLE)
    data = "kind: csv, path: w.csv, test: 0, clients: 5, partition: 'domains(column=doctor)'"
    (tmp_path / "s.yaml").write_text(f"name: s\ndata: {{{data}}}\n")
    picture = tmp_path / "reports/s-partition/partition.svg"
    assert CliRunner().invoke(partition_command, ["s.yaml"]).exit_code == 0
    assert "<!-- doctor -->" in picture.read_text() and "<!-- label -->" not in picture.read_text()
    CliRunner().invoke(partition_command, ["s.yaml", "--by", "label", "--force"])
    assert "<!-- label -->" in picture.read_text() and "<!-- doctor -->" not in picture.read_text()
    with pytest.raises(DataError, match="column: no column 'warp'; did you mean 'ward'"):
        CliRunner().invoke(partition_command, ["s.yaml", "--by", "warp"], catch_exceptions=False)


def test_columns_are_counted_in_place_of_labels():
    ward = np.array(["n", "s", "w"])[np.arange(100) % 3]
    (f,) = federations(ROWS._replace(columns={"ward": ward})).values()
    counts = column_counts(f, "ward", ward)
    expected = [
        [((ROWS.client == name) & (ward == place)).sum() for place in "nsw"] for name in NAMES
    ]
    assert counts.samples.tolist() == expected
    assert counts.labels == ["n", "s", "w"] and counts.noun == "ward"


def test_a_blank_in_such_a_column_is_refused_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(TABLE + "1,,d0,1\n")
    data = {"kind": "csv", "path": "w.csv", "columns": ["doctor"]}
    with pytest.raises(DataError, match=r"w.csv: row 62, column 'ward': a sample without a value"):
        federations(None, **data, partition="natural(column=ward)")
