"""What `resume=True` resumes from, what it refuses, and what it says then."""

import fcntl
import json
import shutil

import jax
import numpy as np
import pytest
from conftest import sampled
from damage import SCENARIO, killed_run
from directories import contents, played, tiny, whole
from faulty import Disk, Killed

import fedsim
from fedsim.errors import CheckpointError, DirectoryError, Interrupted, LockedError
from fedsim.runs import directory, environment
from fedsim.runs.directory import open_run_directory

pytestmark = pytest.mark.essential

SEED = "checkpoints/scaffold.0"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A killed run with two commits, and the bits that it should end with."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    return folder, killed_run(folder)


@pytest.fixture
def killed(template, tmp_path):
    shutil.copytree(template[0], tmp_path / "run")
    return tmp_path / "run"


def states(folder):
    return sorted((folder / SEED).glob("state-*.ckpt"))


def flip(path, at=-40):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def resume(folder, scenario=SCENARIO, **options):
    return fedsim.run(scenario, out=folder, resume=True, **options)


@pytest.mark.long
@pytest.mark.parametrize("resident_mb", [0.0, 256.0])
def test_a_finished_run_is_only_read(resident_mb, tmp_path):
    out, scenario = tmp_path / "run", tiny(resident_mb)
    first = fedsim.run(scenario, out=out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    with Disk(out) as disk:
        again = fedsim.run(scenario, out=out, resume=True)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before
    assert not {step.path for step in disk.trace if step.name in ("write", "replace")}
    assert again.rounds.equals(first.rounds) and again.status == "done"
    for seed in (0, 1):
        one, other = (jax.tree.leaves(result.state(seed=seed)) for result in (first, again))
        assert len(one) > 3 and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("every", "before", "after"), [(2, 3, 6), (1, 3, 6), (2, 3, 7), (5, 0, 3), (4, 6, 7), (3, 4, 5)]
)
@pytest.mark.long
def test_rounds_can_be_added(every, before, after, tmp_path):
    """Even if the shorter run evaluated a last round that the longer one does not evaluate."""
    scenario = tiny(evaluate={"every": every}, seeds=[0, 4])
    expected = played({**scenario, "rounds": after}, tmp_path / "whole")
    fedsim.run({**scenario, "rounds": before}, out=tmp_path / "run")
    resume(tmp_path / "run", {**scenario, "rounds": after})
    whole(tmp_path / "run", expected)


@pytest.mark.long
def test_client_memory_may_move_to_a_file_or_back(tmp_path):
    expected = played(tiny(), tmp_path / "whole")
    for first, then in ((0.0, 256.0), (256.0, 0.0)):
        out = tmp_path / f"{first}"
        fedsim.run(tiny(first, rounds=2), out=out)
        resume(out, tiny(then))
        whole(out, expected)


def test_a_run_of_another_version_is_refused(killed):
    record = directory.sound_record(killed)
    record["environment"]["fedsim"] = "0.1.0"
    directory.write_record(killed, record)
    with pytest.raises(CheckpointError, match=r"environment\.fedsim: \"0\.1\.0\", now "):
        resume(killed)


@pytest.mark.long
def test_a_comparison_of_another_version_is_refused_and_keeps_its_files(tmp_path, monkeypatch):
    scenario = tiny(seeds=1, rounds=0)
    with monkeypatch.context() as patch:
        patch.setattr(environment, "__version__", "0.1.0")
        fedsim.compare(scenario, "fedavg", out=tmp_path / "out", pictures=False)
    before = contents(tmp_path / "out")
    with pytest.raises(CheckpointError, match=r"environment\.fedsim: \"0\.1\.0\", now "):
        fedsim.compare(scenario, "fedavg,median", out=tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == before


def test_fewer_rounds_than_were_committed_are_refused(killed):
    (killed / ".lock").unlink()
    before = contents(killed)
    line = "seed 0: its last commit is of round 2, but rounds is 1; write rounds=2"
    with pytest.raises(CheckpointError, match=line):
        resume(killed, {**SCENARIO, "rounds": 1})
    assert contents(killed) == before


@pytest.mark.long
@pytest.mark.parametrize(("every", "rounds"), [(3, 2), (1, 2), (2, 2), (2, 3)])
def test_a_run_resumed_with_fewer_rounds_equals_a_shorter_run(every, rounds, tmp_path):
    """From the last commit, whether or not the longer run evaluates the new last round."""
    scenario = tiny(evaluate={"every": every}, seeds=[0, 4], checkpoint={"rounds": 1})
    expected = played({**scenario, "rounds": rounds}, tmp_path / "whole")
    asked = iter([False] * 3)
    with pytest.raises(Interrupted):
        fedsim.run({**scenario, "rounds": 6}, out=tmp_path / "run", ask=lambda: next(asked, True))
    resume(tmp_path / "run", {**scenario, "rounds": rounds})
    whole(tmp_path / "run", expected)
    assert fedsim.verify(tmp_path / "run").equal


SAID = {"method=fedavg": "method"}  # where the field that differs is not the edited one
EDITS = """
name=other seeds=[1] seeds=2 method=fedavg method=fedavg()
data.clients=13 data.test=0.3 data.validation=0.1 data.client_test=0.1 data.seed=1
data.partition=shards data.partition={kind:dirichlet,alpha:0.3}
data.partition={kind:dirichlet,alpha:1.0} data=gaussian_blobs data=synthetic
model=mlp model={kind:mlp,hidden:[8]} model={kind:logistic,loss:squared}
fleet.malicious=0.25 fleet.malicious=[1]
cohort=all cohort.size=5 cohort={kind:listed,rounds:[[0,1]]}
client.lr=0.05 client.lr=0.2 client.lr_per=step client.batch=8 client.batch=full
client.steps=2 client.epochs=2 client.shuffle=false client.drop_last=true
client.optimizer={kind:sgd,momentum:0.9} client.optimizer=adam client.optimizer_state=carry
wire=[{kind:sign_flip}] wire=[{kind:gaussian,std:0.1}] method=median
server=[{kind:clip,norm:1.0},{kind:mean,weights:uniform}]
evaluate.every=3 evaluate.last=3 evaluate.metric=test_loss evaluate.target=0.5
numerics.dtype=float64 numerics.lanes=2 numerics.block=2 numerics.threads=1
numerics.matmul_precision=default on_nonfinite=stop on_nonfinite=keep on_impossible=stop
""".split()  # noqa: SIM905 (one per line would be a page)


@pytest.mark.filterwarnings("ignore:XLA runs with")
@pytest.mark.parametrize("edit", sampled(EDITS, 18))
def test_another_scenario_is_refused(edit, template):
    """Before anything is trained, written or deleted; the message names the field."""
    edit = edit.replace(":", ": ")
    with Disk(template[0]) as disk, pytest.raises(CheckpointError) as refused:
        resume(template[0], edits=[edit])
    path = edit.partition("=")[0]
    assert SAID.get(edit, f"scenario.{path}") in str(refused.value), refused.value
    assert str(refused.value).endswith("change it back, or start over with --force or --out")
    assert {step.path.rpartition("/")[2] for step in disk.trace} <= {"run", ".lock"}


def test_other_start_parameters_are_refused(killed):
    start = {"W": np.ones((64, 10), np.float32), "b": np.zeros(10, np.float32)}
    with pytest.raises(CheckpointError, match=r'supplied: \[\], now \["params"\]'):
        resume(killed, params=start)


@pytest.mark.quick(3)
@pytest.mark.parametrize("there", ["missing", "empty", "deep"])
def test_a_run_starts_where_there_is_none_to_resume(there, template, tmp_path):
    out = tmp_path / ("a/b/c" if there == "deep" else "run")
    if there == "empty":
        out.mkdir()
    resume(out)
    whole(out, template[1])


@pytest.mark.parametrize("option", ["resume", "force"])
@pytest.mark.parametrize("name", ["notes.txt", "rounds.csv", ".hidden"])
def test_foreign_files_are_left_alone(name, option, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(DirectoryError, match="holds no fedsim run"):
        fedsim.run(SCENARIO, out=tmp_path, **{option: True})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_run_killed_before_its_first_commit_starts_over(template, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Killed), Disk(out, at=35):
        fedsim.run(SCENARIO, out=out)
    assert (out / "run.json").exists() and not states(out)
    resume(out)
    whole(out, template[1])


@pytest.mark.long
def test_a_run_that_was_asked_to_end_resumes_to_equal_bytes(template, tmp_path):
    """Between any two rounds, again and again."""
    out, calls = tmp_path / "run", 0
    while True:
        asked = iter([False])
        try:
            resume(out, ask=lambda: next(asked, True))
            break
        except Interrupted as end:
            calls += 1
            assert "round" in str(end)
            assert json.loads((out / "run.json").read_text())["status"] == "interrupted"
    assert calls == 3
    whole(out, template[1])


@pytest.mark.long
def test_a_commit_of_another_run_is_refused(killed, tmp_path):
    client = {**SCENARIO["client"], "lr": 0.3}
    fedsim.run({**SCENARIO, "seeds": [1], "client": client}, out=tmp_path / "other")
    shutil.copytree(tmp_path / "other/checkpoints/scaffold.1", killed / SEED, dirs_exist_ok=True)
    with pytest.raises(CheckpointError, match=r"scenario\.client\.lr: 0\.3, now 0\.1") as refused:
        resume(killed)
    assert "hashes.seed: 1, now 0" in str(refused.value)


@pytest.mark.parametrize("number", [1, 3])
def test_a_commit_of_another_format_is_refused(killed, number):
    newest, current = states(killed)[-1], b"checkpoint 2 " + fedsim.__version__.encode()
    newest.write_bytes(newest.read_bytes().replace(current, b"checkpoint %d 9.8.7" % number, 1))
    written = rf"was written by fedsim 9.8.7 in format {number}; fedsim .* reads format 2"
    with pytest.raises(CheckpointError, match=f"{written}: finish the run with that version"):
        resume(killed)


def test_the_previous_commit_is_used_if_the_newest_is_damaged(killed, template):
    flip(states(killed)[-1])
    line = r"state-000002.ckpt: is damaged.*resuming from the commit before"
    with pytest.warns(UserWarning, match=line):
        resume(killed)
    whole(killed, template[1])


@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone"])
def test_damaged_client_memory_is_refused(damage, killed):
    rows = killed / SEED / "memory-0.rows"
    size = (rows.stat().st_size) // 4  # of a row, or less
    if damage == "flipped":
        data = np.frombuffer(rows.read_bytes(), np.uint8).copy()
        data[:: size // 4] ^= 1
        rows.write_bytes(data.tobytes())
    else:
        rows.write_bytes(rows.read_bytes()[:size]) if damage == "shorter" else rows.unlink()
    line = r"memory-0.rows: (the row of client \d+ is damaged|is shorter than)"
    with pytest.raises(CheckpointError, match=line):
        resume(killed)


def test_a_damaged_record_is_refused(killed):
    flip(killed / "run.json", 300)
    with pytest.raises(DirectoryError, match=r"run.json: is damaged \(.*\); --force starts over"):
        resume(killed)
    fedsim.run(SCENARIO, out=killed, force=True)


def test_resume_and_force_together_are_refused(killed):
    before = contents(killed)
    with pytest.raises(DirectoryError, match="--resume continues a run and --force replaces it"):
        resume(killed, force=True)
    assert contents(killed) == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [("f", "is not a directory"), ("f/run", "Not a dir"), ("x" * 300, "too long")],
)
def test_impossible_directories_are_refused(name, reason, tmp_path):
    (tmp_path / "f").write_text("mine")
    with pytest.raises(DirectoryError, match=reason):
        resume(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_lock_that_was_deleted_between_opening_and_locking_is_opened_again(monkeypatch, tmp_path):
    """A writer that has just ended deleted it: two later ones must not lock one directory twice."""
    lock, flock, calls = tmp_path / "run/.lock", fcntl.flock, []

    def late(file, how):
        calls.append(how)
        if len(calls) == 1:
            lock.unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with open_run_directory(tmp_path / "run", False, False):
        assert len(calls) == 2
        second = open_run_directory(tmp_path / "run", False, True)
        with pytest.raises(LockedError, match=r"in use by process \d+ on "), second:
            pass
    assert not (tmp_path / "run").exists()
