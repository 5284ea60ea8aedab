"""Poisson batches: who is in them, where they are cut, and what is counted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedsim
from fedsim.errors import ScenarioError
from fedsim.fleet.local import Local, poisson_batches

STEPS = 20_000


def local(**changes) -> Local:
    common = {"batch": 3, "epochs": None, "steps": STEPS, "shuffle": False, "drop_last": False}
    return Local(**common, lr=lambda r: 0.1, poisson=True, **changes)


def membership(cap: int | None) -> np.ndarray:
    """Whether each of ten rows is in each batch `[steps, 10]`."""
    rows = np.arange(100, 110)
    batches, valid = poisson_batches(rows, STEPS, local(cap=cap), np.random.default_rng(3))
    in_batch = np.arange(batches.shape[1]) < valid[:, None]
    assert not batches[~in_batch].any()
    times = np.zeros((STEPS, 10), int)
    np.add.at(times, (np.nonzero(in_batch)[0], batches[in_batch] - 100), 1)
    assert times.max() == 1
    return times > 0


@pytest.fixture(scope="module")
def whole():
    return membership(cap=None)


def test_every_sample_is_in_a_batch_by_itself(whole):
    """Rows are there with probability 0.3, pairs with 0.3², and batches have binomial sizes."""
    is_in = whole.astype(float)
    tolerance = 4 / np.sqrt(STEPS)
    assert_allclose(is_in.mean(axis=0), 0.3, atol=tolerance)
    pairs = is_in.T @ is_in / STEPS
    assert_allclose(pairs[~np.eye(10, dtype=bool)], 0.09, atol=tolerance)
    assert_allclose(is_in.sum(axis=1).var(), 10 * 0.3 * 0.7, rtol=0.05)


def test_a_batch_beyond_the_cap_is_cut_to_any_of_its_rows(whole):
    sizes = np.minimum(whole.sum(axis=1), 4)
    cut = membership(cap=4)
    assert cut.sum(axis=1).tolist() == sizes.tolist()
    assert_allclose(cut.mean(axis=0), sizes.mean() / 10, atol=4 / np.sqrt(STEPS))


SCENARIO = {
    "name": "poisson",
    "rounds": 3,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 5},
    "client": {"lr": 0.1, "batch": 2, "steps": 6, "shuffle": "poisson"},
}


@pytest.mark.long
def test_a_run_draws_poisson_batches_and_counts_those_that_were_cut():
    """Two of 32 samples are expected, eight deviations more and eight are 22."""
    result = fedsim.run(SCENARIO)
    plan = result.experiment.plans[0]
    assert plan.local.cap == 22
    batches = [plan.work.batches(r, client) for r in (1, 2, 3) for client in range(5)]
    assert {rows.shape for rows, _ in batches} == {(6, 22)}
    sizes = np.concatenate([valid for _, valid in batches])
    assert 0 in sizes and 1 in sizes and sizes.max() > 2
    assert result.rounds["batches_cut"].iloc[1:].tolist() == [0, 0, 0]


def test_another_shuffle_is_refused():
    expected = "client.shuffle: should be true or false or poisson, found"
    with pytest.raises(ScenarioError, match=expected):
        fedsim.run({**SCENARIO, "client": {**SCENARIO["client"], "shuffle": "poison"}})
