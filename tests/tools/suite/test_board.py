"""A suite's results as a folder that others add to, and drawn runs that are replayed."""

import json
import shutil

import pytest

import fedsim
from fedsim.cli.entry import main
from fedsim.errors import CheckpointError, DirectoryError, ScenarioError, exit_code
from fedsim.runs import directory
from fedsim.tools.suite import adding
from fedsim.tools.suite.adding import add
from fedsim.tools.suite.board import runs_in, task_folders, task_hash, task_of
from fedsim.tools.suite.drawn import Drawn, draw, verify_drawn

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
    fedsim.compare(TASK, methods, out=out, pictures=False, progress=False, **more)
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Results of a suite with one task, and two comparisons of somebody's."""
    folder = tmp_path_factory.mktemp("runs")
    compared(folder / "suite" / "first", ["fedavg", "fedprox"])
    compared(folder / "mine", ["fedavg", "scaffold"])
    compared(folder / "longer", ["fedavg", "scaffold"], edits=["rounds=3"])
    return folder


@pytest.fixture
def results(runs, tmp_path):
    """The results, which a test may change."""
    return shutil.copytree(runs / "suite", tmp_path / "suite")


def command(*words):
    """The exit code of `fedsim suite`."""
    try:
        main(["suite", *map(str, words)])
    except SystemExit as end:
        return end.code or 0
    return 0


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(folder, *paths):
    """Why `add` refuses, in one line; nothing has changed."""
    before = contents(folder)
    with pytest.raises((ScenarioError, DirectoryError, CheckpointError)) as refusal:
        add(folder, paths)
    assert "\n" not in str(refusal.value)
    assert contents(folder) == before
    return exit_code(refusal.value), str(refusal.value)


def test_what_holds_no_tasks_is_refused_in_one_line(tmp_path):
    assert refused(tmp_path, tmp_path)[0] == 4
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("[" * 100_000)
    code, text = refused(tmp_path, broken)
    assert code == 4 and "is damaged" in text
    with pytest.raises(DirectoryError, match="there is no such folder"):
        draw(tmp_path / "nowhere", 0.1, 0)


@pytest.mark.long
def test_rows_of_the_same_task_join_it_and_can_be_verified(results, runs):
    before = contents(results / "first")
    ((added, task),) = add(results, [runs / "mine"])
    assert added == results / "first+scaffold"
    assert contents(added) == contents(runs / "mine")
    assert contents(results / "first") == before
    assert sorted(path.name for path in results.iterdir()) == ["first", "first+scaffold"]
    assert task_folders(results) == {"first": [results / "first", added]}
    tasks = [task_of(path, directory.sound_record(path)) for path in (results / "first", added)]
    assert task_hash(tasks[0]) == task_hash(tasks[1]) == task

    # 16 runs, with those of settings that were not chosen; a draw is the same again.
    assert [len(drawn.runs) for drawn in draw(results, 1, 0)] == [8, 8]
    assert draw(results, 0.25, 3) == draw(results, 0.25, 3) != draw(results, 0.25, 4)
    for drawn in draw(results, 0.1, 0):
        verification = verify_drawn(drawn)
        assert verification.equal
        replayed = [check for check in verification.checks if "the same bits" in check.detail]
        assert len(replayed) == len(drawn.runs)


@pytest.mark.long
def test_runs_that_a_search_ended_early_can_be_verified_and_are_another_task(runs, tmp_path):
    search = ["compare.budget=4", "compare.search.kind=halving", "rounds=4"]
    path = compared(tmp_path / "search", ["fedavg"], edits=search)
    record = directory.sound_record(path)
    assert task_of(path, record)["compare"]["search"]["kind"] == "halving"
    assert "search" not in task_of(runs / "mine", directory.sound_record(runs / "mine"))["compare"]

    ends = [plan["rounds"] for plan in record["planned"].values()]
    assert sorted(ends) == [1, 1, 2, 4]
    verification = verify_drawn(Drawn(path, [who for who, _ in runs_in(path, record)]))
    assert verification.equal
    assert sum("the same bits" in check.detail for check in verification.checks) == 8


@pytest.mark.long
def test_the_commands_print_a_line_for_each_and_have_exit_codes(results, runs, capsys):
    assert command("add", results, runs / "mine") == 0
    path, task = capsys.readouterr().out.split("/  task ")
    assert path == str(results / "first+scaffold") and len(task) == 12 + 1
    assert command("add", results, runs / "longer") == 2
    assert capsys.readouterr().err.count("\n") == 1

    assert command("verify", results, "--share", 0.01) == 0
    assert capsys.readouterr().out.count("replayed with the same bits") == 1
    (results / "first" / "summary.csv").write_text("")
    assert command("verify", results, "--share", 0.01) == 7
    assert "summary.csv was changed" in capsys.readouterr().out


@pytest.mark.long
def test_what_cannot_join_is_refused_and_changes_nothing(results, runs, monkeypatch):
    code, text = refused(results, runs / "longer")
    assert code == 2 and "is another task: scenario.rounds is 3, and 2 in" in text
    code, text = refused(results, results / "first")
    assert code == 2 and "fedprox is there already" in text
    code, text = refused(results, runs / "mine", runs / "mine")
    assert code == 2 and "scaffold is there already" in text

    other = shutil.copytree(runs / "mine", results.parent / "other")
    (other / "summary.csv").write_text((other / "summary.csv").read_text().replace("0.", "0.9"))
    code, text = refused(results, other)
    assert code == 7 and "summary.csv was changed" in text

    shutil.copy(runs / "mine" / "summary.csv", other)
    record = json.loads((runs / "mine" / "run.json").read_text())
    record["scenario"]["name"] = "../../elsewhere"
    directory.write_record(other, record)
    code, text = refused(results, other)
    assert code == 2 and "has no task '../../elsewhere'" in text
    (other / "link").symlink_to("/etc/passwd")
    assert refused(results, other)[0] == 4

    # One that is killed while it copies leaves nothing that counts, and nothing in the way.
    def killed(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(adding.os, "rename", killed)
        add(results, [runs / "mine"])
    assert list(task_folders(results)["first"]) == [results / "first"]
    assert add(results, [runs / "mine"])[0].path == results / "first+scaffold"
    assert not (results / adding.INCOMING).exists()


@pytest.mark.long
def test_a_run_that_was_made_up_is_noticed_when_it_is_drawn(results):
    """The files are those of the record, whose hash is right, but no such run was made."""
    path = results / "first"
    record = directory.sound_record(path)
    logs = sorted(path.glob("checkpoints/*/log.jsonl"))
    swapped = [logs[0].parent, logs[1].parent]
    for folder, other in (swapped, swapped[::-1]):
        shutil.copytree(folder, results / folder.name)
    for folder, other in (swapped, swapped[::-1]):
        shutil.rmtree(folder)
        shutil.copytree(results / other.name, folder)
    for folder in swapped:
        shutil.rmtree(results / folder.name)
    directory.write_record(path, {**record, "files": directory.hashes(path)})
    (drawn,) = draw(results, 1, 0)
    verification = verify_drawn(drawn)
    assert verification.wrong
