"""Norm, drift and cosine of updates follow their definitions, and change nothing else."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.fields.diagnostics.diagnosis import add_updates, diagnose

NAMES = ["update_norm", "drift", "cosine"]
SCENARIO = {
    "name": "diagnosis",
    "rounds": 6,
    "seeds": 2,
    "data": {"kind": "digits", "clients": 12, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
}
ASKED = ["evaluate.diagnostics=true"]


def diagnosed(*blocks, runs=1):
    """The diagnosis of blocks of (rows, weights), `[3, runs]`."""
    sums = None
    for rows, weight in blocks:
        sums = add_updates(sums, jax.tree.map(jnp.asarray, rows), jnp.asarray(weight), runs=runs)
    assert sums is not None
    return np.array(diagnose(sums))


def stack(K=7, seed=0):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=(K, 3, 4)), "b": rng.normal(size=(K, 2))}


def by_hand(rows):
    """From the definitions, pair by pair."""
    flat = np.concatenate([rows["w"].reshape(len(rows["b"]), -1), rows["b"]], 1)
    norms = np.linalg.norm(flat, axis=1)
    distances = np.linalg.norm(flat - flat.mean(0), axis=1)
    drift = np.sqrt((distances**2).mean())
    cosines = []
    for a, b in itertools.combinations(flat, 2):
        cosines.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    return norms.mean(), drift, np.mean(cosines)


@pytest.mark.optimised
@pytest.mark.long
def test_blocks_and_runs_trained_together_have_the_bits_of_one_block_of_one_run():
    cohorts = [jax.tree.map(np.float32, stack(seed=seed)) for seed in range(4)]
    weights = np.random.default_rng(0).integers(0, 2, (4, 7)).astype(np.float32)
    alone = [diagnosed(run) for run in zip(cohorts, weights, strict=True)]
    rows = jax.tree.map(lambda *leaves: np.concatenate(leaves), *cohorts)
    together = diagnosed((rows, weights.ravel()), runs=4)
    assert together.tobytes() == np.concatenate(alone, 1).tobytes()

    blocks = []
    for cut in (slice(0, 3), slice(3, 4), slice(4, 7)):
        block = jax.tree.map(lambda leaf, cut=cut: leaf[cut], cohorts[0])
        blocks.append((block, weights[0][cut]))
    assert diagnosed(*blocks).tobytes() == alone[0].tobytes()


def test_norm_drift_and_cosine_follow_their_definitions():
    """Rows that did not arrive, or that are not finite, do not count."""
    with jax.enable_x64(True):
        rows = stack()
        rows["w"][2] = 1e6  # whose weight is 0
        rows["w"][5, 0, 0] = np.nan
        counted = {name: leaf[[0, 1, 3, 4, 6]] for name, leaf in rows.items()}
        values = diagnosed((rows, np.array([1.0, 1, 0, 3, 1, 1, 1])))
        np.testing.assert_allclose(values[:, 0], by_hand(counted), rtol=1e-12)


def test_equal_updates_do_not_drift():
    with jax.enable_x64(True):
        rows = jax.tree.map(np.ones_like, stack())
        norm, drift, cosine = diagnosed((rows, np.ones(7)))[:, 0]
        assert norm == pytest.approx(14**0.5)
        assert (drift, cosine) == (pytest.approx(0, abs=1e-6), pytest.approx(1))
        _, drift, cosine = diagnosed((rows, np.eye(7)[0]))[:, 0]
        assert drift == pytest.approx(0, abs=1e-6) and np.isnan(cosine)


@pytest.fixture(scope="module")
def asked() -> fedsim.Result:
    return fedsim.run(SCENARIO, edits=ASKED)


@pytest.mark.long
def test_diagnosis_changes_nothing_else(asked):
    plain = fedsim.run(SCENARIO)
    columns = [*NAMES, "honest_distance"]
    assert not set(NAMES) & set(plain.rounds)
    assert list(asked.rounds)[-4:] == columns
    assert asked.rounds.drop(columns=columns).equals(plain.rounds)
    assert asked.model(seed=1)["W"].tobytes() == plain.model(seed=1)["W"].tobytes()

    first = asked.rounds.query("round == 0")
    later = asked.rounds.query("round > 0")
    assert first[NAMES].isna().to_numpy().all()
    assert (later[["update_norm", "drift"]] > 0).to_numpy().all()
    assert later["cosine"].abs().max() <= 1


@pytest.mark.long
def test_columns_resume_after_a_commit_and_are_means_since_the_previous_row(asked, tmp_path):
    every = asked.rounds
    edits = [*ASKED, "evaluate.every=2"]
    short = fedsim.run(SCENARIO, edits=[*edits, "rounds=5"], out=tmp_path)
    assert len(short.rounds) == 8

    prolonged = fedsim.run(SCENARIO, edits=edits, out=tmp_path, resume=True)
    rows = prolonged.rounds.set_index(["seed", "round"])
    for seed, first in itertools.product((0, 1), (1, 3, 5)):
        of_seed = every[every["seed"] == seed]
        both = of_seed[of_seed["round"].between(first, first + 1)]
        row = rows.loc[(seed, first + 1), NAMES].astype(float)
        np.testing.assert_allclose(row, both[NAMES].mean(), rtol=1e-12)
