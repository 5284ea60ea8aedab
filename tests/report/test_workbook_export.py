"""Tables are exported to an Excel workbook, a sheet for each."""

import math
import shutil
import sys

import numpy as np
import openpyxl
import pandas as pd
import pytest
from click.testing import CliRunner
from test_workbooks import lines
from workbooks import parts, written

from fedsim.cli import cli
from fedsim.errors import DirectoryError
from fedsim.report.workbook import workbook


def test_a_workbook_has_numbers_and_texts_a_remark_and_what_it_lacks_as_text(tmp_path):
    frame = pd.DataFrame({"x": [0.25, math.nan, -math.inf], "t": ["007", " x ", "a\nb"]})
    (tmp_path / "x.xlsx").write_bytes(workbook({"one": frame, "a/b": frame}, "unfinished"))
    made = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert made.sheetnames == ["one", "a_b"] and made.properties.description == "unfinished"
    rows = [("x", "t"), (0.25, "007"), (None, " x "), ("-inf", "a\nb")]
    assert list(made["one"].values) == rows


def test_what_fits_into_no_sheet_is_refused():
    with pytest.raises(DirectoryError, match=r"one: .* too large.*; export it as csv"):
        workbook({"one": pd.DataFrame({"a": np.zeros(1_048_577)})})
    with pytest.raises(DirectoryError, match=r"one: .*; export it as csv"):
        workbook({"one": pd.DataFrame({"a": ["\x1b"]})})


@pytest.mark.long
def test_a_run_is_exported_with_a_sheet_for_each_table_and_read_back(root, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("run.json", "compare.csv", "summary.csv", "across.csv"):
        shutil.copy(root / "reports/rules" / name, run)
    path = tmp_path / "all.xlsx"
    done = CliRunner().invoke(cli, ["export", str(run), "--format", "xlsx", "--out", str(path)])
    assert done.exit_code == 0, done.output
    sheets = pd.read_excel(path, sheet_name=None)
    assert list(sheets) == ["across", "compare", "summary"]
    for name, frame in sheets.items():
        table = pd.read_csv(run / f"{name}.csv")
        for column in table.select_dtypes("number"):
            assert np.allclose(frame[column], table[column], rtol=1e-15, equal_nan=True), column
    wrong = CliRunner().invoke(cli, ["export", str(run), "--format", "xlsx"])
    assert wrong.exit_code == 2 and "xlsx is not text; give --out FILE" in wrong.output


def test_openpyxl_is_asked_for_where_it_is_missing(tmp_path, monkeypatch):
    path = written(tmp_path / "t.xlsx", parts())
    for module in [name for name in sys.modules if name.startswith("openpyxl")]:
        monkeypatch.setitem(sys.modules, module, None)
    (line,) = lines(path)
    assert line.startswith("xlsx needs openpyxl: pip install 'fedsim-jax[excel]'")
    with pytest.raises(DirectoryError, match=r"fedsim-jax\[excel\]"):
        workbook({"one": pd.DataFrame({"a": [1]})})
