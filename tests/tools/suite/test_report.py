"""A suite's report is written from folders of runs, which join where their tasks are the same."""

import pandas as pd
import pytest
from click.testing import CliRunner
from test_board import compared as played

from fedsim.cli import cli
from fedsim.errors import DirectoryError
from fedsim.report.latex import escaped
from fedsim.tools.suite.report import write_report
from fedsim.tools.suite.results import read_tasks


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Two tasks that were run, and their folder."""
    folder = tmp_path_factory.mktemp("suite")
    methods = ["fedavg", "fedprox(mu=0.1)", "local_only", "centralised"]
    for name in ("first", "second"):
        played(folder / name, methods, edits=[f"name={name}", "rounds=1"])
    return folder


@pytest.mark.long
def test_a_report_has_the_numbers_of_the_comparisons_and_is_byte_equal_again(suite, tmp_path):
    result = CliRunner().invoke(cli, ["suite", "report", str(suite), "--out", str(tmp_path / "r")])
    assert result.exit_code == 0, result.output
    said = "with 2 seeds and 1 pair, no two methods can be told apart, which takes at least 6"
    assert said in result.output
    columns = ["mean", "sd", "difference", "ci_low", "ci_high"]
    scores = pd.read_csv(tmp_path / "r/scores.csv")
    for name in ("first", "second"):
        compared = pd.read_csv(suite / name / "compare.csv").set_index("method")[columns]
        of_task = scores[scores["task"] == name].set_index("method")[columns]
        pd.testing.assert_frame_equal(of_task.loc[compared.index], compared)
    assert set(pd.read_csv(tmp_path / "r/overall.csv")["note"].dropna()) == {
        "pooled data, not federated",
        "no score: trains no shared model",
    }
    assert escaped("fedprox(mu=0.1)") in (tmp_path / "r/tables/scores.tex").read_text()
    written = write_report([suite], tmp_path / "again")
    for name in written.names:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "r" / name).read_bytes()


@pytest.mark.long
def test_folders_join_by_task_and_what_does_not_fit_is_refused_in_one_line(suite, tmp_path):
    once, _ = read_tasks([suite])
    twice, left_out = read_tasks([suite, suite / "first"])
    assert twice == once and left_out == []

    table = suite / "first" / "summary.csv"
    text = table.read_text()
    other = tmp_path / "other"
    other.mkdir()
    for name in ("run.json", "compare.csv"):
        (other / name).write_bytes((suite / "first" / name).read_bytes())
    (other / "summary.csv").write_text(text.replace("fedprox(mu=0.1)", "mine"))
    (joined, _), _ = read_tasks([suite, other])
    assert set(joined.methods) == {*once[0].methods, "mine"} and "mine" not in once[0].methods
    assert joined.scores("mine") == joined.scores("fedprox(mu=0.1)")

    empty = tmp_path / "empty"
    empty.mkdir()
    frame = pd.read_csv(table)
    frame.assign(final=frame["final"] - 0.25).to_csv(other / "summary.csv", index=False)
    for folders, reason in (
        ([suite, other], "'first' has other scores of "),
        ([tmp_path / "none"], "there is no such folder"),
        ([empty], "no task of a suite"),
    ):
        with pytest.raises(DirectoryError, match=reason) as refusal:
            read_tasks(folders)
        assert "\n" not in str(refusal.value)
    result = CliRunner().invoke(cli, ["suite", "report", str(suite), "--out", f"{suite}/first"])
    assert result.exit_code != 0 and "is a run" in str(result.exception or result.output)
