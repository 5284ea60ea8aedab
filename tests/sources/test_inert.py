"""Text that a spreadsheet would compute: guarded in tables and exports, read back unchanged."""

import csv
import io
import json
import math
import shutil

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.cli import cli
from fedsim.disk.tables import COMPUTED, inert, read_table, to_csv, unguarded

STARTS = ["", "'", "''", *COMPUTED, "'=", "''=", "'-1", "-0.5", "+1e3", "@a", "\t=", "007"]
TEXTS = st.builds("{}{}".format, st.sampled_from(STARTS), st.text("=+-@'\t\r\n ,\"a1é", max_size=8))


@settings(max_examples=25)
@given(TEXTS, TEXTS)
def test_a_guarded_text_is_not_computed_and_comes_back(one, other):
    assert not inert(one).startswith(COMPUTED)
    assert unguarded(inert(one)) == one
    assert (inert(one) == inert(other)) == (one == other)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


def back(folder, column, cells):
    text = to_csv([{column: cell, "seed": 0} for cell in cells], [column, "seed"])
    (folder / "rounds.csv").write_text(text, encoding="utf-8", newline="")
    return read_table(folder, "rounds")[column].tolist()


@settings(deadline=None, max_examples=25)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_table_gives_back_the_texts_that_were_written(folder, texts):
    """Names of methods as they were; an empty one is missing."""
    assert ["" if pd.isna(text) else text for text in back(folder, "method", texts)] == texts


def test_numbers_are_never_guarded(folder):
    numbers = [-0.5, 1e300, -math.inf, 5e-324]
    for column in ("train_loss", "client"):
        assert back(folder, column, numbers) == numbers
        assert "'" not in (folder / "rounds.csv").read_text()


def test_clients_that_are_called_like_formulas_stay_text(folder):
    assert back(folder, "client", ["-0.5", "'=1", "=1", "a"]) == ["-0.5", "'=1", "=1", "a"]
    assert back(folder, "client", ["-0.5"]) == ["-0.5"]


def test_tables_of_earlier_versions_keep_their_apostrophes(folder):
    (folder / "rounds.csv").write_text("method,seed\n'tis,0\n'=cmd(),0\n")
    assert read_table(folder, "rounds")["method"].tolist() == ["'tis", "=cmd()"]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_guards_text_in_csv_unless_asked_not_to(root, tmp_path, form):
    run = shutil.copytree(root / "reports/rules", tmp_path / "run")
    for name in ("summary", "compare"):
        table = pd.read_csv(run / f"{name}.csv", dtype=str, keep_default_na=False)
        table.loc[table["method"] == "median", "method"] = "'=cmd()"  # as `to_csv` writes `=cmd()`
        table.to_csv(run / f"{name}.csv", index=False)

    def exported(*words):
        done = CliRunner().invoke(cli, ["export", str(run), "--format", form, *words])
        assert done.exit_code == 0, done.output
        return done.output

    guarded, raw = exported("--excel-safe"), exported("--raw")
    assert "'=cmd()" in guarded and "=cmd()" in raw and "'=cmd()" not in raw
    assert exported() == (guarded if form == "csv" else raw)
    if form == "json":  # numbers, where the other forms have a paper's texts
        assert {type(row["mean"]) for row in json.loads(raw)} == {float}
    else:
        cells = [cell for row in csv.reader(io.StringIO(guarded)) for cell in row]
        assert "-0.0019" in cells and "-0.0049 to +0.0010" in cells  # numbers are no formulas
