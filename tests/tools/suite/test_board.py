"""A suite's results as a folder: drawn runs that are replayed, and what joins."""

import shutil

import pytest
from directories import rehashed
from test_commands import fedsim as typed

import fedsim
from fedsim.errors import DirectoryError
from fedsim.runs import directory
from fedsim.tools.suite.board import runs_in, task_of
from fedsim.tools.suite.drawn import Drawn, draw, verify_drawn
from fedsim.tools.suite.results import read_tasks

TASK = {
    "name": "first",
    "rounds": 2,
    "seeds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 4, "validation": 0.2},
    "client": {"batch": 16, "epochs": 1},
    "compare": {"suite": 1, "budget": 2, "ranges": True, "baseline": "fedavg"},
}


def compared(out, methods, **more):
    """A comparison of the task in a folder."""
    comparison = fedsim.compare(TASK, methods, out=out, pictures=False, progress=False, **more)
    assert comparison.status == "done"
    return out


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Results of a suite with one task."""
    folder = tmp_path_factory.mktemp("played") / "suite"
    compared(folder / "first", ["fedavg", "fedprox"])
    return folder


@pytest.fixture
def results(played, tmp_path):
    """The results, which a test may change."""
    return shutil.copytree(played, tmp_path / "suite")


def test_what_holds_no_tasks_is_refused_in_one_line(tmp_path):
    with pytest.raises(DirectoryError, match="no run of a task"):
        draw(tmp_path, 0.1, 0)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("[" * 100_000)
    with pytest.raises(DirectoryError, match="is damaged"):
        draw(tmp_path, 0.1, 0)
    with pytest.raises(DirectoryError, match="there is no such folder"):
        draw(tmp_path / "nowhere", 0.1, 0)


@pytest.mark.long
def test_drawn_runs_can_be_verified(results):
    """Eight runs, with those of settings that were not chosen; a draw is the same again."""
    assert [len(drawn.runs) for drawn in draw(results, 1, 0)] == [8]
    assert draw(results, 0.25, 3) == draw(results, 0.25, 3) != draw(results, 0.25, 4)
    for drawn in draw(results, 0.1, 0):
        verification = verify_drawn(drawn)
        assert verification.equal
        replayed = [check for check in verification.checks if "the same bits" in check.detail]
        assert len(replayed) == len(drawn.runs)


@pytest.mark.long
def test_runs_that_a_search_ended_early_can_be_verified_and_are_another_task(results, tmp_path):
    search = ["compare.budget=4", "compare.search.kind=halving", "rounds=4"]
    path = compared(tmp_path / "search", ["fedavg"], edits=search)
    record = directory.sound_record(path)
    assert task_of(record)["compare"]["search"]["kind"] == "halving"
    assert "search" not in task_of(directory.sound_record(results / "first"))["compare"]

    ends = [plan["rounds"] for plan in record["planned"].values()]
    assert sorted(ends) == [1, 1, 2, 4]
    verification = verify_drawn(Drawn(path, [who for who, _ in runs_in(path, record)]))
    assert verification.equal
    assert sum("the same bits" in check.detail for check in verification.checks) == 8


@pytest.mark.long
def test_the_command_has_exit_codes(results, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    verified = typed("suite verify suite --share 0.01", results.parent)
    assert verified.returncode == 0
    assert verified.stdout.count("replayed with the same bits") == 1
    (results / "first" / "summary.csv").write_text("")
    changed = typed("suite verify suite --share 0.01", results.parent)
    assert changed.returncode == 7 and "summary.csv was changed" in changed.stdout


@pytest.mark.long
def test_comparisons_of_other_tasks_do_not_join(results):
    longer = shutil.copytree(results / "first", results.parent / "longer")
    record = directory.sound_record(longer)
    rehashed(longer, scenario={**record["scenario"], "rounds": 3})
    with pytest.raises(DirectoryError, match=r"'first' has scenario.rounds 3 here, and 2 in"):
        read_tasks([results, longer])


@pytest.mark.long
def test_a_run_that_was_made_up_is_noticed_when_it_is_drawn(results):
    """The files are those of the record, whose hash is right, but no such run was made."""
    one, other, *_ = sorted((results / "first/checkpoints").iterdir())
    one.rename(results / "beside")
    other.rename(one)
    (results / "beside").rename(other)
    rehashed(results / "first")
    (drawn,) = draw(results, 1, 0)
    assert verify_drawn(drawn).wrong
