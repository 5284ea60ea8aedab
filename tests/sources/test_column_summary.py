"""`fedsim data describe` tells what the columns of a table hold, also if no samples can be made."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from test_describe import LABELS, federation_of

from fedsim.cli import cli
from fedsim.errors import DataError
from fedsim.runs.describe_data import describe


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
    "number": (
        np.random.default_rng(0).permutation(40) + 500,
        "has another whole number in each of 40 rows, as ids",
    ),
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
