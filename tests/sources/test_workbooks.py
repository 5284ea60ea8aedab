"""Excel workbooks are read as the same table in CSV, or refused in a line."""

import datetime as dt
import math
import shutil
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pytest
from click.testing import CliRunner
from workbooks import HEAD, ROWS, parts, sheet, written

import fedsim
from fedsim.cli import cli
from fedsim.cli.interrupts import Interrupts
from fedsim.errors import DataError
from fedsim.runs.describe_data import describe
from fedsim.sources import csv, xlsx
from fedsim.sources import workbook as reading

DAY = dt.datetime(2024, 5, 1)


def book(path, rows, title="data", before=()):
    """Write a workbook of rows, behind other sheets."""
    new = openpyxl.Workbook()
    new.remove(new.active)
    for name in before:
        new.create_sheet(name).append(["nothing"])
    table = new.create_sheet(title)
    for row in rows:
        table.append(row)
    new.save(path)
    return new, table


def lines(path, **keys) -> list[str]:
    with pytest.raises(DataError) as error:
        xlsx(str(path), **keys)
    return [line.removeprefix(f"{path}: ") for line in error.value.lines]


def test_a_sheet_is_read_as_the_same_table_in_csv(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (i, rng.normal(), "AB"[i % 2], DAY + dt.timedelta(hours=6 * i), i % 3 == 0, f"c{i % 4}",
         None if i == 7 else i / 8, i % 2)
        for i in range(30)
    ]  # fmt: skip
    names = ["whole", "share", "ward", "seen", "ill", "client", "gap", "y"]
    book(tmp_path / "t.xlsx", [names, *rows], before=["notes"])
    frame = pd.DataFrame(rows, columns=names)
    frame["share"] = [float(f"{value:.16g}") for value in frame["share"]]  # as openpyxl writes
    frame["ill"] = frame["ill"].map({True: "TRUE", False: "FALSE"})
    frame["seen"] = [moment.isoformat() for moment in frame["seen"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    keys = {"missing": "mean", "drop": ["whole"], "columns": ["ward"], "dates": "ordinal"}
    one = xlsx(str(tmp_path / "t.xlsx"), sheet="data", **keys)
    two = csv(str(tmp_path / "t.csv"), **keys)
    assert one.features == two.features and one.x.tobytes() == two.x.tobytes()
    for mine, theirs in ((one.y, two.y), (one.client, two.client)):
        assert mine.tolist() == theirs.tolist() and mine.dtype == theirs.dtype
    assert one.columns["ward"].tolist() == two.columns["ward"].tolist()


@pytest.mark.long
def test_empty_rows_and_columns_are_left_out_and_cells_are_found_where_they_are(tmp_path):
    new, table = book(tmp_path / "t.xlsx", [])
    for row, values in enumerate([("a", "b", "y"), (1.0, dt.time(6), 0), (), (2.5, "", 1)], 4):
        for column, value in zip((2, 3, 5), values, strict=False):
            table.cell(row, column, value)
    table.cell(2000, 30).number_format = "0.00"
    new.save(tmp_path / "t.xlsx")
    got = xlsx(str(tmp_path / "t.xlsx"), missing="mean")
    assert got.features == ("a", "b") and got.y.tolist() == [0, 1]
    assert got.x[0].tolist() == [1, 0.25] and got.x[1, 0] == 2.5 and math.isnan(got.x[1, 1])
    assert lines(tmp_path / "t.xlsx") == [
        "row 7, column 'b': blank; write missing: mean, median or drop"
    ]


def test_formulas_are_read_as_they_were_stored(tmp_path):
    stored = '<row><c r="A22"><f>1+1</f><v>2</v></c><c><v>1</v></c></row>'
    empty = '<row><c t="str"><f>IF(1,"")</f><v></v></c><c><v>1</v></c></row>'
    path = written(tmp_path / "t.xlsx", parts({"one": sheet(HEAD + ROWS + stored + empty)}))
    got = xlsx(str(path), missing="mean")
    assert got.x[20, 0] == 2 and math.isnan(got.x[21, 0])
    assert lines(path) == ["row 23, column 'a': blank; write missing: mean, median or drop"]


def test_errors_and_merged_cells_are_named(tmp_path):
    path = tmp_path / "t.xlsx"
    rows = [["a", "y"], *[[i, i % 2] for i in range(9)], ["#N/A", 1], [1, 1, None, "x"]]
    book(path, [*rows, ["#DIV/0!", 1]])
    assert lines(path) == ["row 13, column 'a': holds the error #DIV/0!; mend or empty the cell"]
    new, table = book(path, rows)
    table.merge_cells("A3:A4")
    new.save(path)
    blank = "blank; write missing: mean, median or drop"
    assert lines(path, drop=[""]) == [f"row {row}, column 'a': {blank}" for row in (4, 11)]


@pytest.mark.long
def test_sheets_are_chosen_by_name_or_number(tmp_path):
    path = tmp_path / "t.xlsx"
    book(path, [["a", "y"], [1, 0], [2, 1]], title="Data 1", before=["one", "two"])
    assert xlsx(str(path), sheet="Data 1").x.tolist() == xlsx(str(path), sheet=2).x.tolist()
    other = "sheet 'one' is read; to read another one of 'two', 'Data 1', write sheet: NAME"
    assert lines(path)[-1] == other and other in describe(str(path))["notes"]
    with pytest.raises(DataError, match="is a workbook or another zip file, not text"):
        csv(str(path))
    assert lines(path, sheet="data 2") == ["sheet: none is called 'data 2'; did you mean 'Data 1'?"]
    there = "there are 'one', 'two', 'Data 1'"
    assert lines(path, sheet=3) == [f"sheet: no number 3, counted from 0; {there}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(999), "a password, or is an .xls"),
        (b"a,y\n1,0\n", "not a sound xlsx file: File is not a zip file"),
        ({"xl/workbook.bin": b"x"}, "not a sound xlsx file"),
    ],
    ids=["an old one", "text", "binary"],
)
def test_other_files_get_a_line_that_says_what_to_do(tmp_path, content, said):
    path = tmp_path / "t.xlsx"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        written(path, content)
    (line,) = lines(path)
    assert said in line


def test_what_a_sheet_and_a_workbook_hold_is_bounded(tmp_path, monkeypatch):
    path = written(tmp_path / "t.xlsx", parts({"one": sheet(HEAD + ROWS * 9000)}))
    assert "unpacks from" in lines(path)[0] and "at most 200-fold" in lines(path)[0]
    path = written(tmp_path / "t.xlsx", parts())
    monkeypatch.setattr(reading, "MAX_CELLS", 50)
    assert lines(path) == ["more than 50 cells; save the table as CSV or Parquet"]


@pytest.mark.long
def test_a_workbook_that_came_with_a_run_is_read_only_where_its_maker_is_trusted(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    book(tmp_path / "t.xlsx", [["a", "b", "y"], *[[i, i % 5, i % 2] for i in range(60)]])
    data = {"kind": "xlsx", "path": "t.xlsx", "drop": ["a"], "clients": 3}
    fedsim.run({"name": "x", "rounds": 2, "data": data}, out="runs/x", pictures=False)
    assert fedsim.verify("runs/x").equal

    def told(*words):
        done = CliRunner().invoke(cli, [*words, "--json"], obj=Interrupts("ended"))
        return done.exit_code, done.output

    assert told("bundle", "runs/x", "-o", "x.zip", "--commits")[0] == 0
    with zipfile.ZipFile("x.zip") as archive:
        archive.extractall("unpacked")
    shutil.rmtree("runs")
    (tmp_path / "t.xlsx").unlink()
    record = next((tmp_path / "unpacked").rglob("run.json")).parent
    roots = [str(folder) for folder in (tmp_path / "unpacked").rglob("data/*")]
    verify = ["verify", str(record), "--data-root", roots[0]]
    for words in (["verify", "--against", "x.zip"], verify):
        code, output = told(*words)
        assert code == 2, output
        assert "t.xlsx is a workbook that came with the run; read it with" in output
        assert told(*words, "--trust-data")[0] == 0
