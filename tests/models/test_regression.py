"""Regression: R² and MAE beside the loss, and models that tell classes apart refused."""

import numpy as np
import pytest

import fedsim
from fedsim.engine.scoring.rows import metrics, scores_by_row
from fedsim.errors import ScenarioError
from fedsim.report.page.outcome import headline
from fedsim.study.statistics import scored
from fedsim.study.summary import larger_is_better, worst
from fedsim.study.tuning import validation_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = (X @ np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 3.0]]) + 5 + RNG.normal(size=(60, 2))).astype(
    np.float32
)
DATA = fedsim.Arrays(X, Y, client=np.arange(60) % 4, x_test=X[:23] + 0.1, y_test=Y[:23])


def scenario(**sections):
    return {"name": "line", "rounds": 3, "client": {"lr": 0.1, "steps": 2}, **sections}


def scores(outputs, y):
    """R² and MAE of outputs, in float64."""
    outputs, y = (np.asarray(values, np.float64).reshape(len(y), -1) for values in (outputs, y))
    return 1 - ((outputs - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum(), np.abs(outputs - y).mean()


@pytest.fixture(scope="module")
def result():
    return fedsim.run(scenario(data={"validation": 0.2}), data=DATA)


@pytest.mark.long
def test_r2_and_mae_are_those_of_the_final_model(result):
    params, last = result.model(), result.rounds.iloc[-1]
    outputs = DATA.x_test @ np.asarray(params["W"]) + np.asarray(params["b"])
    assert (last["test_r2"], last["test_mae"]) == pytest.approx(
        scores(outputs, DATA.y_test), rel=1e-5
    )
    assert last["test_loss"] == pytest.approx(
        0.5 * ((outputs - DATA.y_test) ** 2).sum(1).mean(), rel=1e-5
    )
    assert "test_accuracy" not in result.rounds and {"validation_r2", "validation_mae"} <= {
        *result.rounds
    }


@pytest.mark.long
def test_clients_have_their_absolute_errors(result):
    assert (
        result.clients["global_mae"].between(0, 10).all()
        and "global_accuracy" not in result.clients
    )


def test_the_default_model_of_targets_is_linear_and_the_record_says_so(result):
    assert result.scenario["model"] == {"kind": "linear", "bias": True, "loss": None}


@pytest.mark.parametrize(("metric", "best"), [("test_r2", "max"), ("test_mae", "min")])
def test_runs_are_scored_by_what_is_asked_for(metric, best):
    summary = fedsim.run(scenario(rounds=2, evaluate={"metric": metric}), data=DATA)
    row = summary.summary.iloc[0]
    assert row["metric"] == metric and row["best"] == getattr(summary.rounds[metric], best)()


def test_chunks_change_no_bit():
    rows = [
        {
            "loss": RNG.normal(size=(2, 5)),
            "squares": RNG.random((2, 5)),
            "distance": RNG.random((2, 5)),
        }
        for _ in range(2)
    ]
    whole = {
        name: np.concatenate([part[name].reshape(1, -1) for part in rows], 1) for name in rows[0]
    }
    y = RNG.normal(size=17)
    assert metrics(scores_by_row(rows, 17), y) == metrics(scores_by_row([whole], 17), y)


def test_targets_that_are_all_alike_have_no_r2():
    rows = {name: np.ones(4) for name in ("loss", "squares", "distance")}
    assert metrics(rows, np.full(4, 3.0)) == {"loss": 1.0, "r2": None, "mae": 1.0}


@pytest.mark.long
def test_a_loss_of_ones_own_may_take_other_outputs():
    model = (lambda key: np.zeros((3, 7), np.float32), lambda params, x: x @ params)
    result = fedsim.run(
        scenario(rounds=1), data=DATA, model=model, loss=lambda outputs, y: (outputs**2).sum(1)
    )
    assert "test_loss" in result.rounds and "test_r2" not in result.rounds


def test_a_model_of_classes_is_refused_for_targets():
    with pytest.raises(ScenarioError, match=r"model: logistic is for classes.*write linear"):
        fedsim.run(scenario(model="logistic"), data=DATA)
    with pytest.raises(ScenarioError, match="cross_entropy is for classes"):
        fedsim.run(scenario(model={"kind": "mlp", "loss": "cross_entropy"}), data=DATA)


def test_which_way_they_are_better():
    assert larger_is_better("test_r2") and not larger_is_better("test_mae")
    assert (worst("test_accuracy"), worst("test_r2"), worst("test_mae")) == (0.0, -np.inf, np.inf)
    assert scored([0.4, None], [False, True], worst("test_r2")).tolist() == [0.4, -np.inf]
    assert [validation_of(f"test_{name}") for name in ("r2", "mae")] == [
        "validation_r2",
        "validation_mae",
    ]


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
    return fedsim.Arrays(
        x,
        x @ [1.0, 0.02, 30.0] + 0.3 * rng.normal(size=200),
        client=rng.choice(["a", "b", "c"], 200),
    )


@pytest.mark.long
def test_a_run_reports_what_its_model_scores():
    result = fedsim.run(SCENARIO, data=measured())
    f = result.experiment.plans[0].federation
    W, b = (result.model()[name] for name in ("W", "b"))
    last = result.rounds.iloc[-1]
    for name in ("test", "validation"):
        x, y = map(np.asarray, getattr(f, name))
        error = (x @ W + b)[:, 0] - y
        assert last[f"{name}_r2"] == pytest.approx(
            1 - (error**2).sum() / ((y - y.mean()) ** 2).sum(), rel=1e-10
        )
        assert last[f"{name}_mae"] == pytest.approx(np.abs(error).mean(), rel=1e-10)
    held = [f.holders.of(k) for k in range(3)]
    own = [np.abs((f.train.x[rows] @ W + b)[:, 0] - f.train.y[rows]).mean() for rows in held]
    assert result.clients["global_mae"].tolist() == pytest.approx(own, rel=1e-10)
    assert (
        result.summary["metric"].item() == "test_r2"
        and result.summary["final"].item() == last["test_r2"]
    )
    assert result.scenario["model"]["kind"] == "linear"  # none was written
    chunked = fedsim.run(
        {**SCENARIO, "data": {**SCENARIO["data"], "resident_mb": 0}}, data=measured()
    )
    assert chunked.rounds.equals(result.rounds)


def test_the_headline_of_a_run_names_r2_and_mae(result):
    last = result.rounds.iloc[-1]
    text = headline(result.records["summary"], result.records["rounds"], ["fedavg"], "final")
    errors = f"(R² {last['test_r2']:.3g}, MAE {last['test_mae']:.3g})"
    assert text.startswith(
        f"fedavg ends with test loss {last['test_loss']:.4g} {errors} after 3 rounds, "
        "under one seed"
    )


def test_a_metric_of_targets_is_refused_for_classes():
    with pytest.raises(
        ScenarioError, match=r"evaluate\.metric: test_r2 is for targets that are numbers"
    ):
        fedsim.run({"name": "classes", "data": "digits", "evaluate": {"metric": "test_r2"}})
