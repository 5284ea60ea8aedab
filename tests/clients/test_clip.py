"""`client.clip`: gradients of local steps are clipped as optimizers take them."""

import numpy as np
import pytest
from conftest import sampled

import fedsim
from fedsim.errors import ScenarioError

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


CASES = {  # what for -> clip, how clients train, what a step is given a gradient
    "the norm over all leaves, in every step": (
        2.0,
        {"steps": 2},
        lambda g: g * min(1, 2 / np.linalg.norm(g)),
    ),
    "every number": ({"value": 0.5}, {}, lambda g: g.clip(-0.5, 0.5)),
    # The first step of Adam is the sign of a gradient, whatever its length; ε tells them apart.
    "an optimizer sees what is clipped": (
        {"value": 0.5},
        {"optimizer": {"kind": "adam", "eps": 1.0}},
        lambda g: g.clip(-0.5, 0.5) / (abs(g.clip(-0.5, 0.5)) + 1),
    ),
}


@pytest.mark.parametrize("name", sampled(CASES, len(CASES)))
def test_gradients_are_clipped_as_by_hand(name):
    clip, client, step_of = CASES[name]
    result = run(clip, **client)
    ends = []
    for k in range(3):
        x = np.column_stack([X, np.ones(30)])[OWNERS == k]
        w = np.zeros(5)
        for _ in range(client.get("steps", 1)):
            w = w - step_of(x.T @ (x @ w - Y[OWNERS == k]) / 10)
        ends.append(w)
    model = result.model()
    moved = np.concatenate([np.ravel(model["W"]), np.ravel(model["b"])])
    np.testing.assert_allclose(moved, np.mean(ends, axis=0), rtol=1e-6)
    if clip == 2.0:
        assert result.scenario["client"]["clip"] == {"norm": 2.0, "value": None}


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
