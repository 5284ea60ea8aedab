"""`fedsim verify --against`: what repeats is byte-equal, and what differs is told from noise."""

import json
import shutil

import pytest
from conftest import if_whole
from directories import tiny, written
from test_commands import fedsim as typed

import fedsim
from fedsim.errors import DirectoryError
from fedsim.runs import against, directory
from fedsim.tools.bundle import again
from fedsim.tools.bundle.packing import bundle
from fedsim.tools.bundle.unpack import opened


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("against") / "run"
    fedsim.run(tiny(rounds=4), out=folder, pictures=False)  # as `original` of test_fork.py
    return folder


def outcome(run, other):
    return against.against("run", run, other)


def elsewhere(run, other, *tables):
    """A copy of a run as another machine would have written it, with other numbers in tables."""
    shutil.copytree(run, other)
    record = json.loads((other / "run.json").read_text())
    record["environment"]["machine"] = "elsewhere"
    for name in tables:
        (other / name).write_text((other / name).read_text().replace("0.", "0.1"))
        record["files"][name] = directory.hashes(other)[name]
    directory.write_record(other, record)
    return other


def repeat(path, folder):
    quiet = {"ask": lambda: False, "say": lambda line: None}
    repeating = again.Repeating(folder=folder, data_roots=(), device=None, **quiet)
    with opened(path) as content:
        return list(again.repeated(content, repeating))


@pytest.mark.long
def test_in_the_same_environment_other_bytes_are_wrong(run, tmp_path):
    other = elsewhere(run, tmp_path / "other", "rounds.csv")
    record = json.loads((other / "run.json").read_text())
    record["environment"] = json.loads((run / "run.json").read_text())["environment"]
    directory.write_record(other, record)
    found = outcome(run, other)
    assert found.verdict == against.DIFFERS and "have other bytes" in found.lines[0]


def test_elsewhere_two_seeds_decide_nothing_and_equal_scores_do(run, tmp_path):
    other = elsewhere(run, tmp_path / "other", "rounds.csv", "summary.csv")
    assert outcome(run, other).verdict == against.OPEN
    same = elsewhere(run, tmp_path / "same", "rounds.csv")
    assert outcome(run, same).verdict == against.SCORES


@pytest.mark.long
def test_another_run_and_a_changed_file_are_no_repetition(run, tmp_path):
    fedsim.run(tiny(rounds=3), out=tmp_path / "shorter", pictures=False)
    found = outcome(run, tmp_path / "shorter")
    assert found.verdict == against.DIFFERS
    assert found.lines == ["is another run:", "scenario.rounds: 4, here 3"]
    shutil.copytree(run, tmp_path / "changed")
    (tmp_path / "changed/rounds.csv").write_text("x\n")
    found = outcome(tmp_path / "changed", run)
    assert found.lines == ["rounds.csv was changed after it was written"]
    with pytest.raises(DirectoryError, match="holds no fedsim run"):
        outcome(run, tmp_path)


@if_whole
@pytest.mark.long
def test_forks_and_comparisons_are_repeated(run, tmp_path):
    pytest.importorskip("fedsim.tools.fork")
    fedsim.fork(run, round=1, edits=["client.lr=0.05"], out=tmp_path / "fork", pictures=False)
    scenario = tiny(rounds=2, method="fedavg")
    options = {"edits": ["data.validation=0.1"], "pictures": False}
    fedsim.compare(scenario, ["fedavg", "fedprox(mu=0.1|1)"], out=tmp_path / "both", **options)
    bundle([run, tmp_path / "fork", tmp_path / "both"], tmp_path / "b.zip")
    found = {each.name: each.verdict for each in repeat(tmp_path / "b.zip", tmp_path / "again")}
    assert found == dict.fromkeys(("run", "fork", "both"), against.BYTES)

    bundle([tmp_path / "fork"], tmp_path / "alone.zip")
    (alone,) = repeat(tmp_path / "alone.zip", tmp_path / "nothing")
    assert alone.verdict == against.OPEN and "bundle both" in alone.lines[0]


@pytest.mark.long
def test_the_command_runs_from_a_fresh_folder_and_says_it_in_one_code(run, tmp_path):
    bundle([run], tmp_path / "paper.zip")
    (found,) = json.loads(typed("verify --against paper.zip --json", tmp_path).stdout)
    assert (found["verdict"], found["lines"]) == (against.BYTES, ["6 tables and models"])

    written(tiny(rounds=4), tmp_path / "mine.yaml")
    for extra, code in (("", 0), ("--set client.lr=0.2", 7)):
        done = typed(f"verify mine.yaml --against paper.zip {extra}", tmp_path)
        assert done.returncode == code, done.stdout


def test_what_cannot_be_compared_gets_one_line(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    for line, code in (
        ("verify", 2),
        ("verify --against nothing.zip", 4),
        ("verify --against mine.yaml", 7),
        ("verify mine.yaml --out x", 2),
        ("verify --against mine.yaml --set rounds=3", 2),
        ("verify --against mine.yaml --methods fedavg", 2),
    ):
        done = typed(line, tmp_path)
        assert (done.returncode, done.stdout) == (code, ""), (line, done.stderr)
        assert len(done.stderr.splitlines()) == 1


def test_two_runs_are_compared_and_what_differs_is_listed(run, tmp_path):
    other = elsewhere(run, tmp_path / "other", "rounds.csv", "summary.csv")
    torn_run = tmp_path / "torn"
    torn_run.mkdir()
    torn = json.loads((run / "run.json").read_text()) | {"status": "interrupted"}
    directory.write_record(torn_run, torn)
    found = ((run, 0, against.BYTES), (other, 2, against.OPEN), (torn_run, 2, against.OPEN))
    for path, code, verdict in found:
        shown = typed(f"verify {path} --against {run}", tmp_path)
        assert shown.returncode == code and f"{path.name}: {verdict}\n" in shown.stdout
        assert "the same: scenario, " in shown.stdout
        (found,) = json.loads(typed(f"verify --against={run} {path} --json", tmp_path).stdout)
        assert found["verdict"] == verdict
        assert found["difference"]["equal"] == (code == 0)
        assert found["difference"]["tables"].keys() >= ({"rounds"} if code else set())


def test_check_against_is_now_verify_against(run, tmp_path):
    now = typed(f"verify {run} --against {run}", tmp_path)
    was = typed(f"check {run} --against {run}", tmp_path)
    line = "fedsim: 'fedsim check --against' is now 'fedsim verify --against'\n"
    assert now.returncode == 0 and now.stderr == ""
    assert was == now._replace(stderr=line)
