"""A private run against plain NumPy: who came, clipped updates, the expected size, half a step."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reference.scenarios import consecutive, flat
from test_dp_sgd import SCENARIO, SIZES, gradients, samples

import fedsim

CLIP = 0.3
SETTING = {
    "cohort": {"kind": "poisson", "rate": 0.5},
    "client": {"lr": 0.5, "batch": "full", "steps": 2},
    "server": ["mean", {"kind": "sgd", "lr": 0.5}],
    "privacy": {"clip": CLIP, "noise_multiplier": 0.4, "delta": 1e-5},
}
OWN = [slice(start, start + n) for start, n in zip(np.cumsum([0, *SIZES]), SIZES, strict=False)]


def update(model: np.ndarray, rows: slice) -> np.ndarray:
    """Two full steps on a client's samples, shortened to the bound."""
    data = samples()
    y = model
    for _ in range(2):
        g = gradients(y[:12].reshape(4, 3), y[12:], data.x[rows], data.y[rows])
        y = y - 0.5 * g.mean(axis=0)
    length = np.linalg.norm(y - model)
    return (y - model) * min(1, CLIP / length)


def played(setting: dict) -> tuple[list[np.ndarray], fedsim.Result]:
    """A run -> the models at its start and after every round, and its result."""
    models = []
    result = fedsim.run(
        {**SCENARIO, **setting},
        data=samples(),
        partition=consecutive(SIZES),
        watch=lambda experiment, seed, row: models.append(flat(row.server.shared["params"])),
    )
    return models, result


@pytest.mark.long
def test_half_a_step_along_the_noised_mean_over_those_expected():
    """The noise of a round is what clients that stay where they are move the model by."""
    standing = {**SETTING, "client": {**SETTING["client"], "lr": 0.0}}
    noise = np.diff(played(standing)[0], axis=0)
    assert (np.abs(noise).max(axis=1) > 0).all()

    models, result = played(SETTING)
    plan = result.experiment.plans[0]
    model = models[0]
    came = []
    for r in range(1, SCENARIO["rounds"] + 1):
        ids = plan.round(r)[0].ids.tolist()
        updates = [update(model, OWN[i]) for i in ids]
        came.append(len(ids))
        model = model + 0.5 * sum(updates, np.zeros(15)) / 1.5 + noise[r - 1]
        assert_allclose(models[r], model, rtol=1e-10)
    assert len(set(came)) > 1
