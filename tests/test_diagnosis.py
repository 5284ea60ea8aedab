"""Norm, drift and cosine of the clients' updates against their definitions, and asking changes nothing else."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.engine.diagnosis import add_rows, close_sums, no_rows

NAMES = ["update_norm", "drift", "cosine"]
SCENARIO = {
    "name": "diagnosis",
    "rounds": 4,
    "seeds": 2,
    "data": {"kind": "digits", "clients": 12, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
}
ASKED = ["evaluate.diagnostics=true"]


def stack(K=7, seed=0):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=(K, 3, 4)), "b": rng.normal(size=(K, 2))}


def by_hand(rows):
    """From the definitions, pair by pair."""
    flat = np.concatenate([rows["w"].reshape(len(rows["b"]), -1), rows["b"]], 1)
    norms = np.linalg.norm(flat, axis=1)
    apart = np.sqrt((np.linalg.norm(flat - flat.mean(0), axis=1) ** 2).mean())
    pairs = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in itertools.combinations(flat, 2)]
    return norms.mean(), apart, np.mean(pairs)


def test_the_definitions():
    with jax.enable_x64(True):
        rows = jax.tree.map(jnp.asarray, stack())
        whole = close_sums(add_rows(no_rows(rows), rows, jnp.ones(7)))
        np.testing.assert_allclose(whole, by_hand(stack()), rtol=1e-12)
        sums = no_rows(rows)
        for part in (slice(0, 3), slice(3, 4), slice(4, 7)):
            sums = add_rows(sums, jax.tree.map(lambda leaf, part=part: leaf[part], rows), jnp.ones(7)[part])
        assert [float(v) for v in close_sums(sums)] == [float(v) for v in whole]  # to the bit, whatever the blocks


def test_rows_that_did_not_arrive_or_are_not_finite_do_not_count():
    with jax.enable_x64(True):
        rows = stack()
        rows["w"][2], rows["w"][5, 0, 0] = 1e6, np.nan
        weight = jnp.asarray([1.0, 1, 0, 3, 1, 1, 1])
        stacked = jax.tree.map(jnp.asarray, rows)
        kept = {name: leaf[[0, 1, 3, 4, 6]] for name, leaf in rows.items()}
        np.testing.assert_allclose(close_sums(add_rows(no_rows(stacked), stacked, weight)), by_hand(kept), rtol=1e-12)


def test_equal_updates_do_not_drift():
    rows = {"w": jnp.ones((5, 3))}
    norm, drift, cosine = map(float, close_sums(add_rows(no_rows(rows), rows, jnp.ones(5))))
    assert norm == pytest.approx(3**0.5) and drift == pytest.approx(0, abs=1e-3) and cosine == pytest.approx(1)
    alone = close_sums(add_rows(no_rows(rows), rows, jnp.asarray([1.0, 0, 0, 0, 0])))
    assert np.isnan(float(alone.cosine)) and float(alone.drift) == pytest.approx(0, abs=1e-3)


@pytest.mark.long
def test_asking_changes_nothing_else():
    plain, asked = fedsim.run(SCENARIO), fedsim.run(SCENARIO, edits=ASKED)
    assert not set(NAMES) & set(plain.rounds) and list(asked.rounds)[-4:] == [*NAMES, "honest_distance"]
    assert asked.rounds.drop(columns=[*NAMES, "honest_distance"]).equals(plain.rounds)
    assert asked.model(seed=1)["W"].tobytes() == plain.model(seed=1)["W"].tobytes()
    assert asked.rounds.query("round == 0")[NAMES].isna().all(axis=None)
    later = asked.rounds.query("round > 0")
    assert (later[["update_norm", "drift"]] > 0).all(axis=None) and later["cosine"].abs().max() <= 1


@pytest.mark.long
def test_skewed_clients_drift_more():
    drift = {}
    for alpha in (0.1, 100):
        result = fedsim.run(SCENARIO, edits=[*ASKED, f"data.partition.alpha={alpha}"])
        drift[alpha] = result.rounds.query("round == 1")[["drift", "cosine"]].mean()
    assert drift[0.1]["drift"] > 1.5 * drift[100]["drift"] and drift[0.1]["cosine"] < drift[100]["cosine"] - 0.2


@pytest.mark.long
def test_they_go_on_after_a_commit_and_are_means_since_the_row_before(tmp_path):
    every = fedsim.run(SCENARIO, edits=[*ASKED, "rounds=6"]).rounds
    some = fedsim.run(SCENARIO, edits=[*ASKED, "rounds=5", "evaluate.every=2"], out=tmp_path / "out").rounds
    more_of_it = fedsim.run(SCENARIO, edits=[*ASKED, "rounds=6", "evaluate.every=2"], out=tmp_path / "out", resume=True)
    assert len(some) == 8
    rows = more_of_it.rounds.set_index(["seed", "round"])
    for seed, first in itertools.product((0, 1), (1, 3, 5)):
        mine = every[(every["seed"] == seed) & every["round"].between(first, first + 1)]
        np.testing.assert_allclose(rows.loc[(seed, first + 1), NAMES].astype(float), mine[NAMES].mean(), rtol=1e-12)
