"""R² and MAE: against their definitions, from the model that a run returns, and where they do not apply."""

import numpy as np
import pytest

import fedsim
from fedsim.engine.evaluation import fit, residuals
from fedsim.study.statistics import scored
from fedsim.study.summary import larger_is_better, worst
from fedsim.study.tuning import validation_of


@pytest.mark.parametrize("shape", [(40,), (40, 3), (40, 2, 2)])
def test_scores_of_regression_are_their_definitions(shape):
    rng = np.random.default_rng(0)
    y, prediction = rng.normal(size=shape), rng.normal(size=shape)
    got = fit((prediction - y).reshape(40, -1), y)
    spread = ((y - y.mean(0)) ** 2).sum()
    assert got["r2"] == pytest.approx(1 - ((prediction - y) ** 2).sum() / spread, rel=1e-12)
    assert got["mae"] == pytest.approx(np.abs(prediction - y).mean(), rel=1e-12)


def test_where_scores_of_regression_do_not_apply():
    y = np.full(5, 0.1)
    assert fit(np.ones((5, 1)), y) == {"r2": None, "mae": 1.0}  # constant targets, whatever their mean rounds to
    assert fit(np.zeros((5, 0)), y) == {}
    assert np.isnan(fit(np.full((5, 1), np.nan), np.arange(5.0))["r2"])
    assert residuals(np.zeros((5, 2), "f4"), y).shape == (5, 0) and residuals(np.zeros((5, 1), "f4"), y).shape == (5, 1)


def test_which_way_they_are_better():
    assert larger_is_better("test_r2") and not larger_is_better("test_mae")
    assert (worst("test_accuracy"), worst("test_r2"), worst("test_mae")) == (0.0, -np.inf, np.inf)
    assert scored([0.4, None], [False, True], worst("test_r2")).tolist() == [0.4, -np.inf]
    assert [validation_of(f"test_{name}") for name in ("r2", "mae")] == ["validation_r2", "validation_mae"]


SCENARIO = {
    "name": "numbers",
    "rounds": 3,
    "data": {"test": 0.25, "validation": 0.2, "standardize": True},
    "client": {"lr": 0.05, "batch": 10},
    "evaluate": {"metric": "test_r2"},
    "numerics": {"dtype": "float64"},
}


def measured() -> fedsim.Arrays:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) * [1, 100, 0.01]
    return fedsim.Arrays(x, x @ [1.0, 0.02, 30.0] + 0.3 * rng.normal(size=200), client=rng.choice(["a", "b", "c"], 200))


@pytest.mark.long
def test_a_run_reports_what_its_model_scores():
    result = fedsim.run(SCENARIO, data=measured())
    f = result.experiment.plans[0].federation
    W, b = (result.model()[name] for name in ("W", "b"))
    last = result.rounds.iloc[-1]
    for name in ("test", "validation"):
        x, y = (np.asarray(getattr(f, f"{part}_{name}")) for part in "xy")
        error = (x @ W + b)[:, 0] - y
        assert last[f"{name}_r2"] == pytest.approx(1 - (error**2).sum() / ((y - y.mean()) ** 2).sum(), rel=1e-10)
        assert last[f"{name}_mae"] == pytest.approx(np.abs(error).mean(), rel=1e-10)
    own = [np.abs((f.x[f.indices[f.owner == k]] @ W + b)[:, 0] - f.y[f.indices[f.owner == k]]).mean() for k in range(3)]
    assert result.clients["global_mae"].tolist() == pytest.approx(own, rel=1e-10)
    assert result.summary["metric"].item() == "test_r2" and result.summary["final"].item() == last["test_r2"]
    assert result.scenario["model"]["kind"] == "linear"  # none was written
    chunked = fedsim.run({**SCENARIO, "data": {**SCENARIO["data"], "resident_mb": 0}}, data=measured())
    assert chunked.rounds.equals(result.rounds)


@pytest.mark.long
def test_outputs_that_are_no_predictions_have_no_scores():
    """A model of mean and log variance, under its likelihood: only losses are told."""

    def init(key):
        return {"W": np.zeros((3, 2))}

    def apply(params, x):
        return x @ params["W"]

    def likelihood(outputs, y):
        return outputs[:, 1] + (y - outputs[:, 0]) ** 2 * np.e ** (-2 * outputs[:, 1]) / 2

    scenario = {**SCENARIO, "evaluate": {}, "client": {"lr": 0.01, "batch": 10}}
    result = fedsim.run(scenario, data=measured(), model=(init, apply), loss=likelihood)
    assert "test_loss" in result.rounds and "test_r2" not in result.rounds and "global_mae" not in result.clients
