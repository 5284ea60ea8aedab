"""Rules of fairness: limits, and what makes FedMGDA+'s direction the one that it is."""

import numpy as np
import pytest
import scipy.optimize

import fedsim

RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=(7, 4)) + 0.4
COUNTS = np.array([3.0, 1, 2, 5, 1, 4, 2])
LOSSES = RNG.uniform(0.2, 2.0, 7)


def reduced(link, weights=COUNTS):
    return fedsim.aggregate(link, ROWS, weights=weights, loss=LOSSES)


@pytest.mark.long
def test_without_a_tilt_and_over_all_clients_it_is_the_mean():
    np.testing.assert_array_equal(reduced({"kind": "term", "t": 0.0}), reduced("mean"))
    np.testing.assert_array_equal(reduced({"kind": "gifair", "strength": 0.0}), reduced("mean"))
    uniform = reduced({"kind": "mean", "weights": "uniform"})
    np.testing.assert_array_equal(reduced({"kind": "delta_fl", "theta": 1.0}), uniform)


def test_the_largest_tilt_and_the_smallest_share_are_the_worst_client():
    worst = ROWS[LOSSES.argmax()]
    for link in ({"kind": "term", "t": 1e4}, {"kind": "delta_fl", "theta": 1 / 7}):
        np.testing.assert_allclose(reduced(link), worst, rtol=1e-12)


def test_gifair_is_the_gradient_of_the_mean_and_of_all_distances():
    """Rows as the gradients of the losses: a numeric derivative of the paper's objective."""
    strength, p = 0.6, COUNTS / COUNTS.sum()
    lam = strength * p.min() / (len(p) - 1)

    def objective(x):
        losses = LOSSES - ROWS @ x
        return p @ losses + lam * abs(losses[:, None] - losses).sum() / 2

    step = 1e-6 * np.eye(4)
    slope = [(objective(-e) - objective(e)) / 2e-6 for e in step]
    got = reduced({"kind": "gifair", "strength": strength})
    np.testing.assert_allclose(got, slope, rtol=1e-6)


@pytest.mark.long
def test_nobody_is_worse_off_by_the_common_direction():
    direction = reduced({"kind": "fedmgda"})
    units = ROWS / np.linalg.norm(ROWS, axis=1)[:, None]
    assert (units @ direction).min() >= direction @ direction - 1e-9


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
@pytest.mark.parametrize("weights", ["samples", "uniform"])
def test_weights_near_the_mean_are_those_of_a_solver(epsilon, weights):
    units = ROWS / np.linalg.norm(ROWS, axis=1)[:, None]
    centre = COUNTS / COUNTS.sum() if weights == "samples" else np.full(7, 1 / 7)
    solved = scipy.optimize.minimize(
        lambda share: np.sum((share @ units) ** 2),
        centre,
        jac=lambda share: 2 * units @ (share @ units),
        method="SLSQP",
        bounds=[(max(p - epsilon, 0), min(p + epsilon, 1)) for p in centre],
        constraints={"type": "eq", "fun": lambda share: share.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    link = {"kind": "fedmgda", "epsilon": epsilon, "weights": weights}
    np.testing.assert_allclose(reduced(link), solved.x @ units, atol=1e-6)
