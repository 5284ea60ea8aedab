"""Rules that detect malicious clients from residuals, layers or histories, on difficult stacks."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from conftest import if_whole
from reference import detectors

import fedsim
from fedsim.rules.gap_statistic import upper_cluster

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ROOM, D = 16, 30
CLUSTER = jax.jit(upper_cluster)


def among_others(rows, seed: int):
    """The rows among absent ones and one that is not finite -> (stack, sample counts)."""
    rng = np.random.default_rng(seed)
    stack = np.full((ROOM, rows.shape[1]), 1e30)
    place = np.sort(rng.permutation(ROOM)[: len(rows) + 1])
    lost = rng.integers(len(place))
    stack[place[lost]] = np.where(np.arange(rows.shape[1]) % 7 == 3, np.inf, rows[0])
    stack[np.delete(place, lost)] = rows
    return stack, np.isin(np.arange(ROOM), place).astype(float)


def of_paper(rule, rows):
    return rule(rows[0], [0]).reduce(
        SimpleNamespace(updates=rows, x=0 * rows[0], clients=list(range(len(rows))))
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "ties", "outliers"])
def test_residual_reweighting_is_that_of_numpy(kind):
    rng = np.random.default_rng(4)
    for m in (3, 4, 7, 10, 15):
        rows: Any = rng.normal(size=(m, D))
        rows = np.round(rows * 2) if kind == "ties" else rows
        if kind == "outliers":
            rows[: m // 4] = -50 + rng.normal(size=(m // 4, D))
            rows[m // 4, ::3] = 1e6
        stack, w = among_others(rows, m)
        got = fedsim.aggregate("residual_reweighting", stack, weights=w)
        np.testing.assert_allclose(
            got, of_paper(detectors.ResidualReweighting, rows), rtol=1e-9, atol=1e-11
        )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "ties", "outliers"])
def test_lasa_is_that_of_numpy(kind):
    rng, ends = np.random.default_rng(6), (12, 13, D)
    for m in (1, 2, 3, 4, 7, 10, 15):
        rows: Any = rng.normal(size=(m, D)) + 0.3
        rows = np.round(rows * 2) if kind == "ties" else rows
        rows[: m // 4] *= -9 if kind == "outliers" else 1
        stack, w = among_others(rows, m)
        got = fedsim.aggregate(
            "lasa", [stack[:, :12], stack[:, 12], stack[:, 13:].reshape(ROOM, 1, 17)], weights=w
        )
        rule = type("Rule", (detectors.Lasa,), {"ends": ends})
        got = np.concatenate([np.ravel(leaf) for leaf in got])
        np.testing.assert_allclose(got, of_paper(rule, rows), rtol=1e-12, atol=1e-13)


@pytest.mark.long
def test_two_clusters_are_found_as_numpy_finds_them():
    rng, found = np.random.default_rng(3), 0
    for trial in range(40):
        values, among = rng.random(12), rng.random(12) < 0.8
        values[: trial % 5] += trial / 10
        want = detectors.upper(values, among)
        assert np.asarray(CLUSTER(values.astype(np.float32), among)).tolist() == want.tolist()
        found += want.any()
    assert 5 < found < 35
    assert not CLUSTER(np.ones(12, np.float32), among).any()


@if_whole
@pytest.mark.long
def test_fldetector_suspects_those_whose_updates_follow_nothing():
    """Not before the window is full; and who comes now and then is compared with its last time."""
    scenario = {
        "name": "detector",
        "rounds": 12,
        "data": {"kind": "digits", "clients": 16},
        "fleet": {"malicious": [2, 5, 11]},
        "wire": [{"kind": "gaussian", "std": 0.3}],
        "client": {"lr": 0.1, "batch": "full", "epochs": 2},
        "server": [{"kind": "fldetector", "window": 4}],
    }
    suspected = lambda result: np.flatnonzero(result.state()["server"]["suspected"]).tolist()
    result = fedsim.run(scenario)
    kept = result.rounds["malicious_kept"].to_numpy()
    assert suspected(result) == [2, 5, 11] and kept[1:5].min() == 3 and kept[6:].max() == 0
    half = fedsim.run({**scenario, "rounds": 40, "cohort": {"kind": "uniform", "size": 8}})
    assert {2, 5} <= set(suspected(half)) <= {2, 5, 11}
    assert suspected(fedsim.run({**scenario, "wire": []})) == []
