"""`fedsim fork`: with nothing set it is its original; else it shares the rounds before."""

import itertools
import json

import click
import pandas as pd
import pytest
from conftest import WHOLE
from directories import bits, tiny, whole

import fedsim
from fedsim.cli import entry
from fedsim.cli.fork import fork_command
from fedsim.errors import CheckpointError, DirectoryError, Interrupted

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
    forked(original, tmp_path / "fork", round=round)
    whole(tmp_path / "fork", bits(original))


def test_the_rounds_until_then_are_the_original_s(original, tmp_path):
    result = forked(original, tmp_path / "fork", round=2, edits=ATTACKED)

    before = pd.read_csv(original / "rounds.csv")
    common = before["round"] <= 2
    after = result.rounds[before.columns]
    pd.testing.assert_frame_equal(after[common], before[common], check_dtype=False)
    differs = after[~common]["test_loss"].to_numpy() != before[~common]["test_loss"].to_numpy()
    assert differs.all()

    record = json.loads((tmp_path / "fork/run.json").read_text())
    scenario = json.loads((original / "run.json").read_text())["hashes"]["scenario"]
    assert record["fork"] == {"scenario": scenario, "round": 2}
    verified = fedsim.verify(tmp_path / "fork")
    assert verified.equal, [check for check in verified.checks if not check.ok]


@pytest.mark.long
def test_memory_in_a_file_goes_along(tmp_path):
    run(tmp_path / "original", checkpoint={"rounds": 1, "resident_mb": 0})
    forked(tmp_path / "original", tmp_path / "fork", round=2)
    whole(tmp_path / "fork", bits(tmp_path / "original"))


@pytest.mark.long
@pytest.mark.parametrize("wait", [0, 1, 2])
def test_an_interrupted_fork_resumes_to_the_same_bytes(original, tmp_path, wait):
    expected = tmp_path / "expected"
    forked(original, expected, round=1, edits=ATTACKED)

    questions = itertools.count()
    with pytest.raises(Interrupted):
        forked(
            original,
            tmp_path / "fork",
            round=1,
            edits=ATTACKED,
            ask=lambda: next(questions) >= wait,
        )
    if wait:  # a fork of which every seed has begun is a run
        scenario = tiny(rounds=ROUNDS)
        fedsim.run(scenario, edits=ATTACKED, out=tmp_path / "fork", resume=True, pictures=False)
    else:
        forked(original, tmp_path / "fork", round=1, edits=ATTACKED, resume=True)

    whole(tmp_path / "fork", bits(expected))


def test_the_command_says_how_to_resume_and_has_that_option():
    context = click.Context(fork_command, info_name="fork")
    words = ["fork", "reports/iid", "--round", "2", "--out", "x"]
    assert (
        entry._farewell(words) == "resume with: fedsim fork reports/iid --round 2 --out x --resume"
    )
    assert "--resume" in fork_command.get_help(context)


def test_without_its_beginning_it_is_not_resumed(original, tmp_path):
    """Training from the start model would be another run under the same name."""
    forked(original, tmp_path / "fork", round=2, edits=ATTACKED)
    record = json.loads((tmp_path / "fork/run.json").read_text())
    for path in (tmp_path / "fork/checkpoints").rglob("state-*.ckpt"):
        path.unlink()
    from fedsim.runs.directory import write_record

    write_record(tmp_path / "fork", {**record, "status": "running"})
    with pytest.raises(CheckpointError, match="fork again, with --resume"):
        fedsim.run(tiny(rounds=ROUNDS), edits=ATTACKED, out=tmp_path / "fork", resume=True)

    forked(original, tmp_path / "again", round=2, edits=ATTACKED)
    forked(original, tmp_path / "fork", round=2, edits=ATTACKED, resume=True)
    whole(tmp_path / "fork", bits(tmp_path / "again"))
    with pytest.raises(CheckpointError, match=r"fork\.round: 2, now 1"):
        forked(original, tmp_path / "fork", round=1, edits=ATTACKED, resume=True)


@pytest.mark.long
def test_another_optimizer_begins_anew(tmp_path):
    run(tmp_path / "original", method="fedavg")
    adam = {"round": 2, "method": "fedadam(lr=0.01)"}
    with pytest.raises(CheckpointError, match=r"begin it anew with --fresh server"):
        forked(tmp_path / "original", tmp_path / "fork", **adam)
    result = forked(tmp_path / "original", tmp_path / "fork", fresh=["server"], **adam)
    assert result.status == "done"


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
        ({"round": 2, "edits": "wire=[ef21(codec=top_k)]"}, "remember something else"),
        ({"round": 2, "edits": "schedule=fedasync"}, "remember something else|fedasync"),
    ],
)
@pytest.mark.quick(3)
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
    forked(tmp_path / "original", tmp_path / "same", round=2)
    whole(tmp_path / "same", bits(tmp_path / "original"))


def test_a_fork_and_a_comparison_are_not_forked(original, tmp_path):
    forked(original, tmp_path / "fork", round=2)
    with pytest.raises(DirectoryError, match="is a fork itself; fork its original"):
        forked(tmp_path / "fork", tmp_path / "again", round=2)
    with pytest.raises(DirectoryError, match="holds no fedsim run"):
        forked(tmp_path, tmp_path / "again", round=2)
