"""An unfinished run: everything that it has committed can be viewed, and is marked."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from conftest import WHOLE, if_whole
from damage import SCENARIO, killed_run
from directories import bits, played, started, tiny, wait_for_commit, whole, written

import fedsim
from fedsim.errors import CheckpointError, Interrupted
from fedsim.report.mark import in_latex, in_markdown
from fedsim.runs import commits, derive, directory
from fedsim.runs.derive import contents, page_of_runs, rebuild
from fedsim.runs.export import exported
from fedsim.runs.unfinished import UnfinishedRun, demand_reachable, mark_of_runs
from fedsim.scenario import read


def test_a_run_can_be_shortened_but_not_below_its_commit_nor_under_a_schedule_of_rounds(
    tmp_path,
):
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
    before = {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()}
    record, frames = contents(killed)
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
    assert {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()} == before


def test_a_report_of_a_killed_run_is_marked_and_does_not_affect_resuming(
    killed, template, draw, monkeypatch
):
    monkeypatch.setattr(
        derive, "derived_files", lambda frames, record, drawn=(): draw(frames, record, ())
    )
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

    record, frames = contents(killed)
    plain, marked = (
        derived.derived_files(frames, {**record, "unfinished": {"mark": mark}}, ["svg"])[
            "figures/curves.svg"
        ]
        for mark in ("", MARK)
    )
    rebuild(killed)
    assert plain != marked == (killed / "figures/curves.svg").read_bytes()


@pytest.mark.long
def test_a_run_that_was_asked_to_end_writes_its_committed_rows(tmp_path):
    expected = played(tiny(), tmp_path / "whole")
    asked = iter([False, False])
    with pytest.raises(Interrupted):
        fedsim.run(tiny(), out=tmp_path / "run", ask=lambda: next(asked, True))
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["status"] == "interrupted"
    assert record["unfinished"]["runs"]["0"][1] == 3
    assert record["wall_seconds"] > 0
    rows = (tmp_path / "run/rounds.csv").read_text().splitlines()
    assert 1 < len(rows) and {*rows} <= {*(tmp_path / "whole/rounds.csv").read_text().splitlines()}
    fedsim.run(tiny(), out=tmp_path / "run", resume=True)
    whole(tmp_path / "run", expected)


METHODS = ["fedavg", "fedprox(mu=0.1)", "median"]


@pytest.mark.long
def test_a_comparison_that_was_asked_to_end_writes_its_committed_rows(tmp_path):
    scenario = tiny(method=None, evaluate={"every": 1}, numerics={"lanes": 2})
    scenario = {name: value for name, value in scenario.items() if value is not None}
    fedsim.compare(scenario, METHODS, out=tmp_path / "whole")
    calls = iter(range(9))
    with pytest.raises(Interrupted):
        fedsim.compare(
            scenario, METHODS, out=tmp_path / "run", ask=lambda: next(calls, None) is None
        )
    record, frames = contents(tmp_path / "run")
    runs = record["unfinished"]["runs"]
    assert len(runs) == 6
    assert re.fullmatch(
        r"unfinished: \d to 3 of 3 rounds, \d of 6 runs ended", record["unfinished"]["mark"]
    )
    over = [name for name, (done, planned) in runs.items() if done == planned]
    assert 0 < len(over) < 6
    assert (frames["summary"]["status"] == "unfinished").sum() == sum(
        0 < done < 3 for done, _ in runs.values()
    )
    assert "verdict" not in record and rebuild(tmp_path / "run")
    fedsim.compare(scenario, METHODS, out=tmp_path / "run", resume=True)
    for name in ("rounds.csv", "summary.csv", "compare.csv", "clients.csv", "partition.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.long
def test_tuned_settings_are_listed_separately_until_one_is_chosen(tmp_path):
    scenario = tiny(
        evaluate={"every": 1}, data={"kind": "digits", "clients": 12, "validation": 0.1}
    )
    del scenario["method"]
    calls, tune = iter(range(3)), {"client.lr": [0.1, 0.3]}
    with pytest.raises(Interrupted):
        fedsim.compare(
            scenario,
            ["fedavg", "median"],
            tune=tune,
            out=tmp_path / "run",
            ask=lambda: next(calls, None) is None,
        )
    _, frames = contents(tmp_path / "run")
    assert frames["compare"].empty and set(frames["rounds"]["client.lr"]) <= {0.1, 0.3}
    assert "fedavg client.lr=0.1" in page_of_runs([tmp_path / "run"]).decode()


def command(*words, **options):
    line = [sys.executable, "-m", "fedsim.cli", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, **options)


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, *[signal.SIGINT, signal.SIGTERM] * WHOLE])
def test_after_a_signal_report_and_export_show_what_was_committed(number, tmp_path):
    scenario = tiny(rounds=3000, checkpoint={"seconds": 0.05})
    file, out = written(scenario, tmp_path / "s.yaml"), tmp_path / "run"
    process = started(file, out)
    assert wait_for_commit(process, out, set())
    held = command("report", out)
    assert held.returncode == 0
    assert "live.html" in held.stdout
    assert "in use by process" in held.stderr
    assert not (out / "report.html").exists() and "unfinished: " in (out / "live.html").read_text()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert (out / "rounds.csv").exists() == (number != signal.SIGKILL)
    table = command("export", out, "--table", "rounds")
    assert table.returncode == 0 and "unfinished: " in table.stderr
    done = command("report", out)
    assert done.returncode == 0, done.stderr
    assert (out / "rounds.csv").read_text().splitlines()[1:]
    last = pd.read_csv(out / "rounds.csv")["round"].max()
    again = command(
        "run",
        file,
        "--out",
        out,
        "--resume",
        "--set",
        f"rounds={last + 2}",
        "--quiet",
        "--no-pictures",
    )
    assert again.returncode == 0, again.stderr
    assert bits(out) == played({**scenario, "rounds": int(last + 2)}, tmp_path / "whole")


@if_whole
@pytest.mark.long
def test_a_live_page_follows_a_run_to_its_end(tmp_path):
    file, out = (
        written(tiny(rounds=20_000, checkpoint={"seconds": 0.1}), tmp_path / "s.yaml"),
        tmp_path / "run",
    )
    process = started(file, out)
    assert wait_for_commit(process, out, set())
    line = [sys.executable, "-m", "fedsim.cli", "report", str(out), "--follow"]
    follower = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = set()
    while len(seen) < 2:
        assert follower.poll() is None and process.poll() is None
        if (out / "live.html").exists():
            page = (out / "live.html").read_text()
            assert page.rstrip().endswith("</html>") and 'http-equiv="refresh" content="5"' in page
            seen.add(re.search(r'class="mark"><strong>(.*?)<', page)[1])
        time.sleep(0.2)
    process.kill()
    process.communicate()
    errors = follower.communicate(timeout=60)[1]
    assert follower.returncode == 0 and "rewritten every few seconds" in errors, errors
    assert "url=report.html" in (out / "live.html").read_text()
    assert "unfinished: " in (out / "report.html").read_text()
