"""`fedsim verify`, `report` and `export` on a comparison."""

import pandas as pd
import pytest

import fedsim
from fedsim.disk.tables import read_table
from fedsim.runs.export import exported

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quickly_compiled")]

SCENARIO = {
    "name": "small",
    "rounds": 2,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 6},
    "client": {"lr": 0.1, "batch": 32, "epochs": 1},
    "evaluate": {"target": 0.2},
}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    fedsim.compare(SCENARIO, ["fedavg", "median"], vary={"client.lr": [0.05, 0.1]}, out=out)
    return out


def test_a_comparison_is_verified_by_its_files_and_its_arithmetic(out):
    result = fedsim.verify(out)
    assert result.equal
    assert [check.name for check in result.checks] == [
        "record",
        "files",
        "compare.csv",
    ]


def test_a_changed_number_is_caught(out, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    text = (copy / "compare.csv").read_text()
    (copy / "compare.csv").write_text(text.replace("test_accuracy", "test_acuracy", 1))
    result = fedsim.verify(copy)
    assert not result.equal and [check.ok for check in result.checks] == [True, False, False]


def test_tables_are_read_back_bit_for_bit(out):
    """And as numbers where they are numbers."""
    for name in ("rounds", "summary", "compare", "clients"):
        table = read_table(out, name)
        assert table is not None
        assert table.to_csv(index=False, lineterminator="\n") == (out / f"{name}.csv").read_text()
    rounds = read_table(out, "rounds")
    assert rounds is not None
    assert rounds["round"].dtype == "int64"
    assert rounds["client.lr"].dtype == "float64"


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "latex", "parquet"])
def test_every_export_format_has_all_rows(out, form, tmp_path):
    content = exported(out, "summary", form)
    if form == "parquet":
        (tmp_path / "x.parquet").write_bytes(content)
        assert len(pd.read_parquet(tmp_path / "x.parquet")) == 12
    else:
        assert content.decode().count("fedavg") == 6 and content.decode().count("median") == 6
    paper = exported(out, None, form)
    if form == "latex":
        assert rb"\toprule" in paper and rb"\bottomrule" in paper and paper.count(b"fedavg &") == 1
    if form == "markdown":
        assert paper.decode().count("\n") == 6 and "baseline" in paper.decode()


def test_latex_prints_names_as_they_are():
    from fedsim.report.tables import latex, markdown

    table = pd.DataFrame({"a_b": ["50 % & <x> | {y} ~ ^ \\ $z$ #1"]})
    escaped = (
        r"50 \% \& \textless{}x\textgreater{} \textbar{} \{y\} "
        r"\textasciitilde{} \textasciicircum{} \textbackslash{} \$z\$ \#1"
    )
    assert escaped in latex(table)
    assert r"50 % & &lt;x> \| {y}" in markdown(table)
