"""A killed run: everything that it has committed can be viewed, and is marked."""

import shutil

import pandas as pd
import pytest
from damage import SCENARIO, killed_run
from directories import contents, whole

import fedsim
from fedsim.runs import derive, directory
from fedsim.runs.export import exported

MARK = "unfinished: 2 of 4 rounds"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A killed run after two of four rounds, and the bits that it should end with."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    return folder, killed_run(folder)


@pytest.fixture
def killed(template, tmp_path):
    return shutil.copytree(template[0], tmp_path / "run")


def test_everything_that_a_killed_run_has_committed_can_be_viewed(killed):
    before = contents(killed)
    record, frames = derive.contents(killed)
    assert record["unfinished"] == {"mark": MARK, "runs": {"0": [2, 4]}}
    assert frames["rounds"]["round"].tolist() == [0, 2] and frames["clients"].empty
    assert frames["summary"]["reason"].tolist() == ["unfinished: round 2 of 4"]
    with pytest.warns(UserWarning, match=MARK):
        assert exported(killed, "rounds", "csv").count(b"\n") == 3
    with pytest.warns(UserWarning, match=MARK):
        assert exported(killed, None, "markdown").endswith(f"\n*{MARK}*\n".encode())
    page = derive.page_of_runs([killed], refresh=5).decode()
    assert f'<p class="mark"><strong>{MARK}</strong></p>' in page
    assert '<meta http-equiv="refresh" content="5">' in page
    assert 'http-equiv="refresh"' not in derive.page_of_runs([killed]).decode()
    result = fedsim.verify(killed)
    assert not result.equal and not result.wrong and "has not ended" in result.checks[-1].detail
    assert fedsim.diff(killed, killed).equal
    assert contents(killed) == before


def test_a_report_of_a_killed_run_is_marked_and_does_not_affect_resuming(
    killed, template, draw, monkeypatch
):
    without_pictures = lambda frames, record, drawn=(): draw(frames, record, ())
    monkeypatch.setattr(derive, "derived_files", without_pictures)
    names = derive.rebuild(killed)
    assert {"rounds.csv", "summary.csv", "report.html", "tables/summary.tex"} <= {*names}
    record = directory.sound_record(killed)
    assert record["status"] == "interrupted" and record["unfinished"]["mark"] == MARK
    assert pd.read_csv(killed / "rounds.csv")["round"].tolist() == [0, 2]
    assert MARK in (killed / "report.html").read_text()
    assert MARK in (killed / "tables/summary.md").read_text()
    assert MARK.replace("_", r"\_") in (killed / "tables/summary.tex").read_text()
    fedsim.run(SCENARIO, out=killed, resume=True, pictures=False)
    assert not (killed / "report.html").exists()  # none of the state before
    whole(killed, template[1])
    assert "unfinished" not in directory.sound_record(killed) and fedsim.verify(killed).equal


@pytest.mark.long
def test_figures_of_an_unfinished_run_carry_its_mark(killed, draw, pictures):
    """As text in the PDF; unmarked figures are unchanged."""
    record, frames = derive.contents(killed)
    plain, marked = (
        draw(frames, {**record, "unfinished": {"mark": mark}}, ["svg"])["figures/curves.svg"]
        for mark in ("", MARK)
    )
    derive.rebuild(killed)
    assert plain != marked == (killed / "figures/curves.svg").read_bytes()
