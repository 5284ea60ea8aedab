"""`client.clip`: gradients of local steps are clipped as optimizers take them."""

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 4))
Y = X @ [5.0, -3.0, 2.0, 0.0]
OWNERS = np.repeat([0, 1, 2], 10)


def run(clip, *, lr=1.0, steps=1, **client):
    """A run of full-batch steps of all clients from zero."""
    scenario = {
        "name": "clip",
        "rounds": 1,
        "model": "linear",
        "client": {"lr": lr, "batch": "full", "steps": steps, "clip": clip, **client},
        "server": ["mean"],
        "data": {"test": 0},
        "evaluate": {"metric": "test_loss"},
        "numerics": {"dtype": "float64"},
    }
    return fedsim.run(scenario, data=fedsim.Arrays(X, Y, client=OWNERS))


def moved(result) -> np.ndarray:
    """The parameters as one vector; they were zero."""
    model = result.model()
    return np.concatenate([np.ravel(model["W"]), np.ravel(model["b"])])


def gradients() -> np.ndarray:
    """That of every client at zero `[3, 5]`."""
    ones = np.column_stack([X, np.ones(30)])
    return np.stack([-ones[OWNERS == k].T @ Y[OWNERS == k] / 10 for k in range(3)])


def test_a_number_bounds_the_norm_over_all_leaves():
    g = gradients()
    factor = np.minimum(1, 2.0 / np.linalg.norm(g, axis=1, keepdims=True))
    result = run(2.0)
    np.testing.assert_allclose(moved(result), -(factor * g).mean(0), rtol=1e-9)
    assert result.scenario["client"]["clip"] == {"norm": 2.0, "value": None}


@pytest.mark.long
def test_a_value_bounds_every_number():
    wanted = -np.clip(gradients(), -0.5, 0.5).mean(0)
    np.testing.assert_allclose(moved(run({"value": 0.5})), wanted, rtol=1e-9)


@pytest.mark.long
def test_every_local_step_is_clipped():
    assert np.linalg.norm(moved(run(0.01, lr=1.0, steps=5))) <= 5 * 0.01 * (1 + 1e-9)


@pytest.mark.long
def test_adam_sees_clipped_gradients():
    """Its first step is the sign of a gradient, whatever its length; ε tells them apart."""
    optimizer = {"kind": "adam", "eps": 1.0}
    clipped = moved(run({"value": 0.5}, optimizer=optimizer))
    g = np.clip(gradients(), -0.5, 0.5)
    wanted = -(g / (np.abs(g) + 1)).mean(0)
    np.testing.assert_allclose(clipped, wanted, rtol=1e-6)


REFUSED = {
    "both bounds": ({"norm": 1.0, "value": 1.0}, {}, "by norm or by value; write one of them"),
    "no bound": ({}, {}, "by norm or by value; write one of them"),
    "zero": (0, {}, "client.clip: should be a number above 0 or a mapping"),
    "signs of a momentum": (1.0, {"kind": "fedlion"}, "fedlion does not use it; remove it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name):
    clip, client, text = REFUSED[name]
    with pytest.raises(ScenarioError, match=text):
        run(clip, **client)
