"""A search with rungs, run: the best resume, and what is left is as without a search."""

import shutil

import pandas as pd
import pytest
from test_compare import bits

import fedsim
from fedsim.errors import CheckpointError, Interrupted

pytestmark = pytest.mark.long

DIVERGING = 1e30
SETTINGS = [DIVERGING, 0.01, 0.3, 0.02]
SCENARIO = {
    "name": "small",
    "rounds": 4,
    "seeds": 1,
    "data": {"kind": "gaussian_blobs", "samples": 120, "clients": 3, "validation": 0.3},
    "client": {
        "lr": {"kind": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 4},
        "batch": 16,
        "epochs": 1,
    },
    "evaluate": {"metric": "test_loss"},
}
SEARCH = ["compare.search={kind: halving}"]


def searched(out, edits=SEARCH, **options):
    """A search for the length of a step under a schedule that counts the rounds."""
    tune = {"client.lr.init_value": SETTINGS}
    return fedsim.compare(
        SCENARIO, ["fedavg"], tune=tune, edits=edits, out=out, pictures=False, **options
    )


@pytest.fixture(scope="module")
def halved(tmp_path_factory):
    out = tmp_path_factory.mktemp("rungs") / "out"
    return out, searched(out)


def test_the_best_of_each_rung_resume_and_the_diverged_never_do(halved):
    out, comparison = halved
    tuning = pd.read_csv(out / "tuning.csv")
    assert tuning["rung"].tolist() == [1, 1, 4, 2]
    assert tuning["chosen"].tolist() == [0, 0, 1, 0]
    assert comparison.table["trials"].item() == 4
    steps = tuning["local_steps"] / tuning["rung"]
    assert steps[1] == steps[2] == steps[3]  # a promoted setting pays the difference alone
    assert comparison.rounds["round"].tolist() == [0, 1, 2, 3, 4]
    assert fedsim.verify(out).equal


def test_a_setting_that_was_resumed_has_the_run_that_it_has_without_a_search(halved):
    _, comparison = halved
    alone = fedsim.run(SCENARIO, edits=[f"client.lr.init_value={SETTINGS[2]}"])
    columns = [*alone.rounds.columns]
    pd.testing.assert_frame_equal(comparison.rounds[columns], alone.rounds)


@pytest.mark.parametrize("asked", [1, 5])  # in the first rung, and in the last one
def test_an_interrupted_search_resumes_and_a_finished_one_is_only_read(halved, tmp_path, asked):
    out, _ = halved
    answers = iter([False] * asked)
    with pytest.raises(Interrupted):
        searched(tmp_path / "run", ask=lambda: next(answers, True))
    searched(tmp_path / "run", resume=True)
    assert bits(tmp_path / "run") == bits(out)

    before = {path: path.read_bytes() for path in (tmp_path / "run/checkpoints").rglob("*.ckpt")}
    searched(tmp_path / "run", resume=True)
    assert bits(tmp_path / "run") == bits(out)
    assert all(path.read_bytes() == content for path, content in before.items())


def test_random_search_is_a_search_with_one_rung(tmp_path):
    searched(tmp_path / "random", edits=())
    searched(tmp_path / "one", edits=["compare.search={kind: halving, rungs: 1}"])
    assert bits(tmp_path / "one") == bits(tmp_path / "random")


def test_other_processes_search_as_well(halved, tmp_path):
    """With other bits: they compile thoroughly."""
    edits = ["compare.search={kind: halving, rungs: 2}"]
    tuning = searched(tmp_path / "run", edits, jobs=2).tuning
    assert sorted(tuning["rung"]) == [2, 2, 4, 4]
    assert tuning["chosen"].equals(halved[1].tuning["chosen"])


def test_a_search_that_ends_runs_earlier_than_they_are_is_refused(halved, tmp_path):
    shutil.copytree(halved[0], tmp_path / "run")
    searched(tmp_path / "run", edits=(), resume=True)  # all are played to the end
    with pytest.raises(CheckpointError) as refusal:
        searched(tmp_path / "run", resume=True)
    lines = str(refusal.value).splitlines()
    assert len(lines) == 2 and "seed 0: was played to round 4, and this search" in lines[0]
