"""`fedsim verify` and `export` on a comparison that is kept."""

import io
import shutil

import pandas as pd
import pytest

import fedsim
from fedsim.disk.tables import read_table
from fedsim.report.tables import latex, markdown
from fedsim.runs.export import exported


@pytest.fixture(scope="module")
def out(root):
    return root / "reports/optimisers"


def test_a_changed_number_is_caught_by_the_files_and_the_arithmetic(out, tmp_path):
    copy = shutil.copytree(out, tmp_path / "copy")
    text = (copy / "compare.csv").read_text()
    (copy / "compare.csv").write_text(text.replace("test_accuracy", "test_acuracy", 1))
    checks = fedsim.verify(copy).checks
    assert [check.name for check in checks] == ["record", "files", "compare.csv"]
    assert [check.ok for check in checks] == [True, False, False]
    assert "compare.csv was changed after it was written" in checks[1].detail


def test_tables_are_read_back_bit_for_bit(out):
    """And as numbers where they are numbers."""
    for name in ("rounds", "summary", "compare", "clients"):
        table = read_table(out, name)
        assert table is not None
        assert table.to_csv(index=False, lineterminator="\n") == (out / f"{name}.csv").read_text()
    rounds = read_table(out, "rounds")
    assert rounds is not None
    assert rounds["round"].dtype == "int64" and rounds["client.lr"].dtype == "float64"


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "latex", "parquet"])
def test_every_export_format_has_all_rows(out, form):
    content = exported(out, "summary", form)
    if form == "parquet":
        assert len(pd.read_parquet(io.BytesIO(content))) == 160
    else:
        assert content.decode().count("qfedavg") == content.decode().count("scaffold") == 10
        assert b"qfedavg" in exported(out, "compare", form)  # which has cells without a number


def test_latex_prints_names_as_they_are():
    table = pd.DataFrame({"a_b": ["50 % & <x> | {y} ~ ^ \\ $z$ #1"]})
    escaped = (
        r"50 \% \& \textless{}x\textgreater{} \textbar{} \{y\} "
        r"\textasciitilde{} \textasciicircum{} \textbackslash{} \$z\$ \#1"
    )
    assert escaped in latex(table)
    assert r"50 % & &lt;x> \| {y}" in markdown(table)
