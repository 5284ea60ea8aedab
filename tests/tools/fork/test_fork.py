"""`fedsim fork`: with nothing set it is its original; else it shares the rounds before."""

import itertools
import json
import shutil

import pandas as pd
import pytest
from conftest import WHOLE
from directories import bits, rehashed, tiny, whole
from test_updates import kept, same  # noqa: F401 (kept is a fixture)

import fedsim
from fedsim.disk.checkpoint import decode, encode
from fedsim.errors import CheckpointError, DirectoryError, Interrupted
from fedsim.runs.commits import commit_files, read_commit
from fedsim.runs.derive import page_of_runs

ROUNDS = 4
ATTACKED = ["wire=[sign_flip]", "fleet.malicious={count: 3}"]


def run(folder, **sections):
    return fedsim.run(tiny(rounds=ROUNDS, **sections), out=folder, pictures=False)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run of a method whose clients and server remember something."""
    folder = tmp_path_factory.mktemp("fork") / "original"
    run(folder)
    return folder


def forked(original, out, **options):
    return fedsim.fork(original, out=out, pictures=False, **options)


@pytest.mark.parametrize("round", range(1, ROUNDS) if WHOLE else [2])
def test_with_nothing_set_it_is_the_original(original, tmp_path, round):
    """And so it is no original of another fork."""
    forked(original, tmp_path / "fork", round=round)
    whole(tmp_path / "fork", bits(original))
    with pytest.raises(DirectoryError, match="is a fork itself; fork its original"):
        forked(tmp_path / "fork", tmp_path / "again", round=2)


@pytest.mark.long
def test_the_rounds_until_then_are_the_original_s(original, tmp_path):
    result = forked(original, tmp_path / "fork", round=2, edits=ATTACKED)

    before = pd.read_csv(original / "rounds.csv")
    common = before["round"] <= 2
    after = result.rounds[before.columns]
    pd.testing.assert_frame_equal(after[common], before[common], check_dtype=False)
    assert (after["test_loss"] != before["test_loss"])[~common].all()

    record = json.loads((tmp_path / "fork/run.json").read_text())
    scenario = json.loads((original / "run.json").read_text())["hashes"]["scenario"]
    assert record["fork"] == {"scenario": scenario, "round": 2}
    assert fedsim.verify(tmp_path / "fork").equal

    page = page_of_runs([original, tmp_path / "fork"]).decode()
    assert "fork against original at the end: test accuracy " in page
    assert "over 2 seeds, which are too few for a difference to be significant" in page
    assert 'id="forks"' in page and "pointwise" in page
    assert 'id="forks"' not in page_of_runs([tmp_path / "fork"]).decode()


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    """A run that keeps the commit of its second round, and has no other one before its end."""
    folder = tmp_path_factory.mktemp("keeping") / "original"
    run(folder, checkpoint={"seconds": 1e6, "keep": [2]})
    return folder


def rounds_replayed(monkeypatch):
    """How many rounds are run from now on, as a list of one number."""
    from fedsim.runs import replay

    counts = [0]
    before = replay._played

    def counting(seed, copy, experiment, until):
        counts[0] += until - max((commit.round for commit in copy.commits), default=0)
        return before(seed, copy, experiment, until)

    monkeypatch.setattr(replay, "_played", counting)
    return counts


@pytest.mark.long
def test_a_fork_goes_on_from_a_kept_commit(keeping, original, tmp_path, monkeypatch):
    """Byte for byte as a replay does, and without one; later rounds are replayed from there."""
    counts = rounds_replayed(monkeypatch)
    assert bits(keeping) == bits(original)
    forked(keeping, tmp_path / "fork", round=2, edits=ATTACKED)
    assert counts == [0]

    shutil.copytree(keeping, tmp_path / "replayed")
    for folder in (tmp_path / "replayed/checkpoints").iterdir():
        first, *_ = sorted(folder.glob("state-*"))
        first.unlink()
    forked(tmp_path / "replayed", tmp_path / "again", round=2, edits=ATTACKED)
    assert counts == [4]  # two rounds of two seeds
    whole(tmp_path / "fork", bits(tmp_path / "again"))

    forked(keeping, tmp_path / "later", round=3)
    assert counts == [6]  # one round of two seeds
    whole(tmp_path / "later", bits(keeping))


@pytest.mark.long
def test_kept_commits_stay_while_the_run_is_killed_resumed_and_prolonged(original, tmp_path):
    """All commits but the kept ones and the two newest go, and the bits stay; memory is a file."""
    folder = tmp_path / "run"
    scenario = tiny(rounds=ROUNDS, checkpoint={"rounds": 1, "keep": [1, 2], "resident_mb": 0})
    questions = itertools.count()
    with pytest.raises(Interrupted):
        fedsim.run(scenario, out=folder, pictures=False, ask=lambda: next(questions) >= 5)
    fedsim.run(scenario, out=folder, resume=True, pictures=False)
    assert bits(folder) == bits(original)
    for seed in (folder / "checkpoints").iterdir():
        rounds = [read_commit(path).round for path in commit_files(seed)]
        assert rounds == [1, 2, 3, 4]
    assert fedsim.verify(folder, whole=True).equal
    forked(folder, tmp_path / "fork", round=1)
    assert bits(tmp_path / "fork") == bits(original)

    fedsim.run({**scenario, "rounds": 6}, out=folder, resume=True, pictures=False)
    for seed in (folder / "checkpoints").iterdir():
        assert [read_commit(path).round for path in commit_files(seed)] == [1, 2, 5, 6]
    assert fedsim.verify(folder, whole=True).equal


@pytest.mark.long
def test_a_kept_commit_with_another_state_is_noticed(keeping, tmp_path):
    """It is intact, and `verify --whole` replays its round."""
    shutil.copytree(keeping, tmp_path / "run")
    folder = next((tmp_path / "run/checkpoints").iterdir())
    path = commit_files(folder)[0]
    snapshot = decode(path.read_bytes())
    name = next(name for name in snapshot.arrays if name.startswith("server"))
    arrays = {**snapshot.arrays, name: snapshot.arrays[name] + 1}
    path.write_bytes(b"".join(bytes(part) for part in encode(snapshot._replace(arrays=arrays))))
    rehashed(tmp_path / "run")
    found = fedsim.verify(tmp_path / "run", whole=True)
    assert found.wrong
    assert "the commit of round 2" in "".join(check.detail for check in found.checks)


def test_a_round_beyond_the_end_is_not_kept():
    with pytest.raises(fedsim.ScenarioError, match=r"checkpoint.keep\[0\]: round 9 is beyond"):
        fedsim.run(tiny(checkpoint={"keep": [9]}))


@pytest.mark.long
@pytest.mark.parametrize("wait", [0, 1, 2])
def test_an_interrupted_fork_resumes_to_the_same_bytes(original, tmp_path, wait):
    expected, fork = tmp_path / "expected", tmp_path / "fork"
    options = {"round": 1, "edits": ATTACKED}
    forked(original, expected, **options)
    questions = itertools.count()
    with pytest.raises(Interrupted):
        forked(original, fork, ask=lambda: next(questions) >= wait, **options)
    if wait:  # a fork of which every seed has begun is a run
        scenario = tiny(rounds=ROUNDS)
        fedsim.run(scenario, edits=ATTACKED, out=fork, resume=True, pictures=False)
    else:
        forked(original, fork, resume=True, **options)
    whole(fork, bits(expected))


@pytest.mark.long
def test_without_its_beginning_it_is_not_resumed(original, tmp_path):
    """Training from the start model would be another run under the same name."""
    fork = tmp_path / "fork"
    forked(original, fork, round=2, edits=ATTACKED)
    before = bits(fork)
    for path in (fork / "checkpoints").rglob("state-*.ckpt"):
        path.unlink()
    rehashed(fork, status="running")
    with pytest.raises(CheckpointError, match="fork again, with --resume"):
        fedsim.run(tiny(rounds=ROUNDS), edits=ATTACKED, out=fork, resume=True)
    forked(original, fork, round=2, edits=ATTACKED, resume=True)
    whole(fork, before)
    with pytest.raises(CheckpointError, match=r"fork\.round: 2, now 1"):
        forked(original, fork, round=1, edits=ATTACKED, resume=True)


@pytest.mark.long
def test_without_a_client_it_takes_part_no_more(keeping, tmp_path):
    """Four of twelve are left, and join every round."""
    result = forked(keeping, tmp_path / "fork", round=2, edits=f"fleet.without={[*range(8)]}")
    until_then = fedsim.run(tiny(rounds=2)).clients["rounds_joined"]
    later = result.clients["rounds_joined"] - until_then
    assert later.tolist() == 2 * [0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2]
    assert (result.clients["samples"] > 0).all()  # they are still scored


@pytest.mark.long
def test_another_optimizer_begins_anew(tmp_path):
    run(tmp_path / "original", method="fedavg")
    adam = {"round": 2, "method": "fedadam(lr=0.01)"}
    with pytest.raises(CheckpointError, match="begin it anew with --fresh server"):
        forked(tmp_path / "original", tmp_path / "fork", **adam)
    forked(tmp_path / "original", tmp_path / "fork", fresh=["server"], **adam)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"round": ROUNDS}, "a fork begins after round 1 to 3"),
        ({"round": 2, "edits": "rounds=2"}, "the fork has 2 rounds in all"),
        ({"round": 2, "edits": "numerics.dtype=float64"}, "another section numerics"),
        ({"round": 2, "seeds": [7]}, "seed 7 is not one of the original's: 0, 1"),
        ({"round": 2, "edits": "model=mlp"}, "what the server starts with .* differs"),
        ({"round": 2, "edits": "data.clients=10"}, "the samples of clients .* differs"),
        ({"round": 2, "method": "fedavg"}, "what the server starts with .* differs"),
        ({"round": 2, "edits": "schedule=fedasync"}, "remember something else|fedasync"),
    ],
)
@pytest.mark.quick(8)
def test_what_cannot_go_on_is_refused_and_nothing_is_written(original, tmp_path, options, text):
    with pytest.raises((CheckpointError, fedsim.ScenarioError), match=text):
        forked(original, tmp_path / "fork", **options)
    assert not (tmp_path / "fork").exists()


@pytest.mark.long
def test_epsilon_is_not_counted_over_two_kinds_of_rounds(tmp_path):
    privacy = {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}
    cohort = {"kind": "poisson", "rate": 0.5}
    run(tmp_path / "original", method="fedavg", privacy=privacy, cohort=cohort)
    with pytest.raises(CheckpointError, match="ε of a private run"):
        edits = ["privacy.noise_multiplier=2.0"]
        forked(tmp_path / "original", tmp_path / "fork", round=2, edits=edits)


@pytest.mark.long
def test_updates_of_a_fork_begin_with_its_own_rounds(kept, tmp_path):  # noqa: F811
    """With nothing set they are the original's; a fork that kept none cannot be replayed."""
    fedsim.fork(kept, round=2, out=tmp_path / "fork", seeds=[0], pictures=False)
    of_fork = list(fedsim.updates_of(tmp_path / "fork"))
    assert [updates.round for updates in of_fork] == [3, 4]
    for one, other in zip(of_fork, [*fedsim.updates_of(kept, seed=0)][2:], strict=True):
        assert same(one, other)
    shutil.rmtree(tmp_path / "fork/updates")
    with pytest.raises(DirectoryError, match="is a fork that kept no updates; set checkpoint"):
        next(fedsim.updates_of(tmp_path / "fork"))


@pytest.mark.long
def test_a_fork_of_a_run_that_stopped_goes_on(tmp_path):
    blobs = {"kind": "gaussian_blobs", "samples": 240, "classes": 3, "clients": 6}
    scenario = {"name": "stopped", "data": blobs, "rounds": 9, "evaluate": {"every": 2}}
    at_4 = {"metric": "test_accuracy", "target": 0.0, "after": 3}
    stopped = fedsim.run({**scenario, "stop": at_4}, out=tmp_path / "run")
    assert stopped.rounds["round"].tolist() == [0, 2, 4]
    later = fedsim.fork(tmp_path / "run", round=4, out=tmp_path / "later", edits="stop.after=7")
    assert later.summary["stopped"].tolist() == [8]
    never = fedsim.fork(tmp_path / "run", round=4, out=tmp_path / "never", edits="stop=null")
    pd.testing.assert_frame_equal(never.rounds, fedsim.run(scenario).rounds)
