"""`checkpoint.updates`: what arrived of every client is kept, or comes out of a replay."""

import itertools
import json
import shutil

import jax
import numpy as np
import pytest
from directories import bits, rehashed, tiny, whole

import fedsim
from fedsim import tree
from fedsim.assemble.experiment import build, numerics
from fedsim.errors import CheckpointError, Interrupted
from fedsim.scenario import read

KEPT = {"rounds": 1, "updates": True}
LOSSY = {"fleet": {"dropout": 0.3, "malicious": [0, 1, 2, 3]}, "wire": ["sign_flip"]}


def run(folder, **sections):
    return fedsim.run(tiny(rounds=4, **sections), out=folder, pictures=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run that keeps its updates, some of which are attacked or get lost on their way."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    run(folder, checkpoint=KEPT, **LOSSY)
    return folder


def same(one, other):
    """Whether two rounds have the same bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


@pytest.mark.long
def test_kept_updates_are_those_of_a_replay(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/updates")
    replayed = list(fedsim.updates_of(tmp_path / "run", seed=1))
    for one, other in zip(fedsim.updates_of(kept, seed=1), replayed, strict=True):
        assert same(one, other)


def test_their_weighted_mean_is_the_servers_step(kept):
    """Under `mean`, a round's params are those before it and the weighted mean of the rows."""
    result = fedsim.load_model(kept / "model.scaffold.0.safetensors")["params"]
    rounds = list(fedsim.updates_of(kept, seed=0))
    assert [updates.round for updates in rounds] == [1, 2, 3, 4]
    for updates in rounds:
        assert len(updates.clients) == len(updates.weights) <= 4
        shares = updates.weights / updates.weights.sum()
        for name, rows in updates.updates.items():
            expected = updates.params_before[name] + np.tensordot(shares, rows, 1)
            np.testing.assert_allclose(updates.params_after[name], expected, atol=1e-6)
    for before, after in itertools.pairwise(rounds):
        assert same(before.params_after, after.params_before)
    assert same(dict(result), dict(rounds[-1].params_after))


@pytest.mark.long
def test_they_change_nothing_and_verify_knows_them(kept, tmp_path):
    run(tmp_path / "plain", **LOSSY)
    whole(kept, bits(tmp_path / "plain"))

    run(tmp_path / "run", checkpoint=KEPT, seeds=[0], **LOSSY)
    assert fedsim.verify(tmp_path / "run", whole=True).equal
    file = next((tmp_path / "run/updates").glob("*.0/round-000002.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    failed = [check for check in fedsim.verify(tmp_path / "run").checks if not check.ok]
    assert [check.name for check in failed] == ["files"]

    # Whoever changes the record as well is found out by the replay.
    rehashed(tmp_path / "run")
    failed = [check for check in fedsim.verify(tmp_path / "run", whole=True).checks if not check.ok]
    assert "round 2: updates: " in failed[0].detail


def test_check_counts_what_is_held_of_them():
    """Three rounds on their way, and of one run a copy and its file; none where none are kept."""
    parts = {}
    for updates in (True, False):
        scenario = read(tiny(rounds=4, seeds=[0], checkpoint={"updates": updates}))
        with numerics(scenario):
            experiment = build(scenario)
        parts[updates] = experiment.memory_bytes
    parameters = tree.nbytes(experiment.shared[0]["params"])
    assert set(parts[True]) - set(parts[False]) == {"updates"}
    assert parts[True]["updates"] % (5 * parameters) == 0
    assert parts[True]["updates"] >= 5 * 4 * parameters


@pytest.mark.long
def test_a_run_that_resumes_writes_them_again(kept, tmp_path):
    """Those after its last commit are deleted and come again, and so do those of more rounds."""
    scenario = json.loads((kept / "run.json").read_text())["scenario"]
    questions = itertools.count()
    with pytest.raises(Interrupted):
        fedsim.run(scenario, out=tmp_path / "run", pictures=False, ask=lambda: next(questions) >= 5)
    stray = next((tmp_path / "run/updates").iterdir()) / "round-000009.safetensors"
    stray.write_bytes(b"of a round that never was")
    fedsim.run(scenario, out=tmp_path / "run", pictures=False, resume=True)
    files = sorted(path.relative_to(kept) for path in kept.rglob("round-*"))
    assert files == sorted(path.relative_to(tmp_path / "run") for path in tmp_path.rglob("round-*"))
    for file in files:
        assert (kept / file).read_bytes() == (tmp_path / "run" / file).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize(
    "server", ["median", {"kind": "krum", "f": 1}, {"kind": "mean", "weights": "uniform"}]
)
def test_rules_that_see_all_rows_keep_them_too(tmp_path, server):
    client = {"kind": "sgd", "lr": 0.1, "batch": 16}
    sections = {"server": [server], "client": client, "method": None, "seeds": [0]}
    run(tmp_path / "kept", checkpoint=KEPT, **sections)
    run(tmp_path / "not", **sections)
    kept, replayed = (fedsim.updates_of(tmp_path / name) for name in ("kept", "not"))
    assert all(same(one, other) for one, other in zip(kept, replayed, strict=True))


@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"method": "ifca"}, "the server .*has several models"),
        ({"method": "local_only"}, "clients send no messages"),
        ({"wire": ["secure_aggregation"]}, "secure_aggregation sums messages"),
    ],
)
def test_servers_without_updates_of_single_clients_are_refused(tmp_path, sections, reason):
    expected = f"checkpoint.updates: the run keeps what single clients send, and .*{reason}"
    with pytest.raises(fedsim.ScenarioError, match=expected):
        run(tmp_path / "run", checkpoint=KEPT, **sections)
    if "wire" not in sections:
        run(tmp_path / "run", **sections)
        with pytest.raises(CheckpointError, match=reason):
            next(fedsim.updates_of(tmp_path / "run", seed=0))


def test_one_of_several_seeds_has_to_be_named(kept):
    with pytest.raises(CheckpointError, match="has the seeds 0, 1; name one of them"):
        next(fedsim.updates_of(kept))
