"""The weights of FedMGDA+ against those of a solver."""

import numpy as np
import pytest
import scipy.optimize

import fedsim

RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=(7, 4)) + 0.4
COUNTS = np.array([3.0, 1, 2, 5, 1, 4, 2])


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
    got = fedsim.aggregate(link, ROWS, weights=COUNTS)
    np.testing.assert_allclose(got, solved.x @ units, atol=1e-6)
