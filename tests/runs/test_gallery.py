"""The gallery: every run of a folder with its headline, its score and how far it has come."""

import contextlib
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_page import HOSTILE, Visit, chromium  # noqa: F401 (a fixture)

import fedsim
from fedsim.cli import cli
from fedsim.errors import DirectoryError, Interrupted
from fedsim.runs.directory import read_record, write_record
from fedsim.runs.gallery import gallery_of
from fedsim.runs.lock import lock

pytestmark = pytest.mark.long

TINY = {
    "name": "tiny",
    "rounds": 2,
    "seeds": [0],
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 4},
    "model": "logistic",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run, one that failed, one that was interrupted, and what holds no run."""
    folder = tmp_path_factory.mktemp("runs")
    fedsim.run(TINY, out=folder / "finished", pictures=False)
    with contextlib.suppress(Interrupted):
        fedsim.run(TINY, out=folder / "halfway", pictures=False, ask=lambda: True)

    shutil.copytree(folder / "finished", folder / "failed")
    record = read_record(folder / "failed")
    write_record(folder / "failed", {**record, "status": "diverged", "reasons": {"0": "NaN"}})
    shutil.copytree(folder / "finished", folder / "broken")
    (folder / "broken/rounds.csv").write_text("method,round,test_accuracy\nfedavg,x,y\n")
    (folder / "foreign").mkdir()
    (folder / "damaged").mkdir()
    (folder / "damaged/run.json").write_text("{}")
    (folder / "notes.txt").write_text("a file")
    return folder


def states(page: bytes) -> dict[str, str]:
    """Name -> state, of the runs on a page."""
    return dict(re.findall(r'<article data-name="([^"]*)" data-state="([^"]*)"', page.decode()))


def accuracy_of(run: Path) -> float:
    """The score of a run with one seed."""
    head, row = (run / "summary.csv").read_text().splitlines()
    return float(dict(zip(head.split(","), row.split(","), strict=True))["final"])


def test_a_gallery_shows_every_run_of_a_folder_and_names_what_it_leaves_out(runs):
    page, skipped = gallery_of(runs)
    assert states(page) == {"failed": "failed", "finished": "finished", "halfway": "unfinished"}
    assert [line.partition(":")[0] for line in skipped] == ["broken", "damaged/run.json", "foreign"]
    text = page.decode()
    accuracy = accuracy_of(runs / "finished")
    assert f"fedavg ends with test accuracy {accuracy:.4g} after 2 rounds" in text
    assert f"<b>{accuracy:.4g}</b>" in text and text.count("<svg") >= 2


def test_a_card_has_the_question_and_the_number_of_its_headline(runs, tmp_path):
    one = shutil.copytree(runs / "finished", tmp_path / "one")
    record = read_record(one)
    record["scenario"]["title"] = "Do <b> blobs </b> learn?"
    write_record(one, record)
    (tmp_path / "suite").mkdir()
    headline = "Over 3 tasks, a &lt; b beats c: mean test accuracy 0.8128."
    page = (
        '<h1>Suite of 3 tasks</h1><p class="small size">3 tasks</p>'
        f'<p class="lead" data-of="mean test accuracy" data-number="0.8128">{headline}</p>'
    )
    (tmp_path / "suite/report.html").write_text(page)
    text = gallery_of(tmp_path)[0].decode()
    assert re.findall(r"<h2>(?:<a [^>]*>)?(.*?)(?:</a>)?</h2>", text) == [
        "Do &lt;b&gt; blobs &lt;/b&gt; learn?",
        "Suite of 3 tasks",
    ]
    assert f"test accuracy <b>{accuracy_of(one):.4g}</b>" in text
    assert "mean test accuracy <b>0.8128</b>" in text and f"<p>{headline}</p>" in text
    assert 'href="./suite/report.html"' in text


def test_a_card_shows_the_number_of_a_headline_that_is_no_score(root):
    titles = {"breakdown": "Which holds?", "compression": "not this"}
    text = gallery_of(root / "reports", names=list(titles), titles=titles)[0].decode()
    assert ">Which holds?</a>" in text and ">What does accuracy cost in bytes?</a>" in text
    assert "fewer bytes <b>18.7 times</b>" in text and "malicious <b>45 %</b>" in text


def test_a_run_that_is_being_written_is_running(runs):
    with contextlib.ExitStack() as stack:
        lock(runs / "halfway", stack)
        assert states(gallery_of(runs)[0])["halfway"] == "running"


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("finished", "is a run, not a folder of runs"), ("foreign", "holds no folder with a run")],
)
def test_a_folder_without_runs_is_refused_in_one_line(runs, folder, reason):
    with pytest.raises(DirectoryError, match=reason):
        gallery_of(runs / folder)


def test_a_record_has_the_time_at_which_its_run_first_began(runs, tmp_path):
    out = shutil.copytree(runs / "halfway", tmp_path / "again")
    write_record(out, {**read_record(out), "started": "2020-02-02T02:02:02Z"})
    fedsim.run(TINY, out=out, pictures=False, resume=True)
    record = read_record(out)
    assert record["status"] == "done" and record["started"] == "2020-02-02T02:02:02Z"


def test_the_command_writes_the_page_and_links_from_where_it_is(runs, tmp_path):
    folder, elsewhere = tmp_path / "my runs", tmp_path / "all.html"
    shutil.copytree(runs / "finished", folder / "java:script")
    (folder / "java:script/report.html").write_text("a page")
    index = lambda *words: CliRunner().invoke(cli, ["report", "--index", *map(str, words)])
    inside = index(folder)
    assert inside.exit_code == 0 and "index.html" in inside.output
    assert 'href="./java%3Ascript/report.html"' in (folder / "index.html").read_text()
    assert index(folder, "--out", elsewhere).exit_code == 0
    assert 'href="my%20runs/java%3Ascript/report.html"' in elsewhere.read_text()
    two = index(folder, folder)
    assert two.exit_code == 2 and "one folder" in two.output


def test_cards_are_filtered_sorted_and_inert_in_a_browser(runs, chromium, tmp_path):  # noqa: F811
    folder = shutil.copytree(runs, tmp_path / "runs")
    hostile = shutil.copytree(runs / "finished", folder / "<img src=x onerror=window.hit=1>")
    record = read_record(hostile)
    write_record(hostile, {**record, "scenario": {**record["scenario"], "title": HOSTILE}})
    page = folder / "index.html"
    page.write_bytes(gallery_of(folder)[0])
    assert HOSTILE not in page.read_text()
    with Visit(chromium, page) as visit:
        assert visit.page.evaluate("window.hit") is None
        assert visit.asked == [f"file://{page}"] and visit.messages == []
        headings = "document.querySelectorAll('article:not([hidden]) h2')"
        shown = f"Array.from({headings}, heading => heading.innerText)"
        assert len(visit.page.evaluate(shown)) == 4
        visit.page.fill("#filter", "diverged")
        assert visit.page.evaluate(shown) == ["failed"]
        visit.page.fill("#filter", "")
        visit.page.click("button[data-state=finished]")
        assert visit.page.evaluate(shown) == ["failed", "halfway"]
        visit.page.click("button[data-sort=state]")
        visit.page.click("button[data-sort=state]")
        assert visit.page.evaluate(shown) == ["halfway", "failed"]
    with Visit(chromium, page, viewport={"width": 390, "height": 800}) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
