"""An unfinished run: everything that it has committed can be viewed, and is marked."""

import shutil

import pandas as pd
import pytest
from damage import SCENARIO, killed_run
from directories import contents, tiny, whole

import fedsim
from fedsim.errors import CheckpointError
from fedsim.report.mark import in_latex, in_markdown
from fedsim.runs import commits, derive, directory
from fedsim.runs.derive import page_of_runs, rebuild
from fedsim.runs.export import exported
from fedsim.runs.unfinished import UnfinishedRun, demand_reachable, mark_of_runs
from fedsim.scenario import read


def test_a_run_can_be_shortened_but_not_below_its_commit_nor_under_a_schedule_of_rounds(tmp_path):
    """A schedule over local steps does not count rounds, and neither does a plain number."""
    decay = {"kind": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 9}
    client = {"batch": 16, "epochs": 1}
    shorter = lambda **rate: read(tiny(rounds=5, client={**client, **rate}))
    at = lambda round: [UnfinishedRun("0", {}, 0, 9, commits.Committed({}, round, "running"))]
    demand_reachable(tmp_path, shorter(lr=0.1), at(5))
    demand_reachable(tmp_path, shorter(lr=decay, lr_per="step"), at(5))
    with pytest.raises(
        CheckpointError, match="seed 0: its last commit is of round 6, but rounds is 5"
    ):
        demand_reachable(tmp_path, shorter(lr=0.1), at(6))
    with pytest.raises(CheckpointError, match=r"client\.lr: cosine_decay_schedule counts rounds"):
        demand_reachable(tmp_path, shorter(lr=decay), at(5))


def test_the_mark_says_how_many_rounds_are_done():
    so_far = lambda round, status="running": UnfinishedRun(
        "", {}, 0, 200, commits.Committed({}, round, status)
    )
    assert mark_of_runs([so_far(40)]) == "unfinished: 40 of 200 rounds"
    assert (
        mark_of_runs([so_far(40), so_far(200, "done")])
        == "unfinished: 40 to 200 of 200 rounds, 1 of 2 runs ended"
    )
    assert mark_of_runs([UnfinishedRun("", {}, 0, 200, None)]) == "unfinished: 0 of 200 rounds"
    rows = "\\toprule\na & b \\\\\n\\midrule\n1 & 2 \\\\\n\\bottomrule\n"
    latex = f"\\begin{{tabular}}{{ll}}\n{rows}\\end{{tabular}}\n"
    marked = in_latex(latex, "unfinished: 1 of 2")
    assert "\\midrule\n\\multicolumn{2}{l}{\\emph{unfinished: 1 of 2}} \\\\\n\\bottomrule" in marked
    assert in_latex(latex, "") == latex
    assert in_markdown("| a |\n", "m") == "| a |\n\n*m*\n"
    assert in_markdown("x", "") == "x"


# ---------------------------------------------------------------------------------- looking at runs

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
    page = page_of_runs([killed], refresh=5).decode()
    assert f'<p class="mark"><strong>{MARK}</strong></p>' in page
    assert '<meta http-equiv="refresh" content="5">' in page
    assert 'http-equiv="refresh"' not in page_of_runs([killed]).decode()
    result = fedsim.verify(killed)
    assert not result.equal and not result.wrong and "has not ended" in result.checks[-1].detail
    assert fedsim.diff(killed, killed).equal
    assert contents(killed) == before


def test_a_report_of_a_killed_run_is_marked_and_does_not_affect_resuming(
    killed, template, draw, monkeypatch
):
    without_pictures = lambda frames, record, drawn=(): draw(frames, record, ())
    monkeypatch.setattr(derive, "derived_files", without_pictures)
    names = rebuild(killed)
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
def test_figures_of_an_unfinished_run_carry_its_mark(killed, pictures):
    """As text in the PDF; unmarked figures are unchanged."""
    from fedsim.report import derived

    record, frames = derive.contents(killed)
    plain, marked = (
        derived.derived_files(frames, {**record, "unfinished": {"mark": mark}}, ["svg"])[
            "figures/curves.svg"
        ]
        for mark in ("", MARK)
    )
    rebuild(killed)
    assert plain != marked == (killed / "figures/curves.svg").read_bytes()
