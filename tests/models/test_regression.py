"""Regression: R² and MAE beside the loss, and models that tell classes apart refused."""

import numpy as np
import pytest
from building import built

import fedsim
from fedsim.engine.scoring.rows import metrics, scores_by_row
from fedsim.errors import ScenarioError
from fedsim.report.page.outcome import headline
from fedsim.study.summary import larger_is_better, worst
from fedsim.study.tuning import validation_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
SLOPES = np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 3.0]])
Y = (X @ SLOPES + 5 + RNG.normal(size=(60, 2))).astype(np.float32)
DATA = fedsim.Arrays(X, Y, client=np.arange(60) % 4, x_test=X[:23] + 0.1, y_test=Y[:23])


def scenario(**sections):
    return {"name": "line", "rounds": 3, "client": {"lr": 0.1, "steps": 2}, **sections}


def test_the_default_model_of_targets_is_linear_and_the_record_says_so():
    data = {"kind": "diabetes", "clients": 3}
    model = built(scenario(data=data)).scenario.resolved()["model"]
    assert model == {"kind": "linear", "bias": True, "loss": None}


@pytest.mark.optimised
def test_chunks_change_no_bit():
    scores = ("loss", "squares", "distance")
    rows = [{name: RNG.random((2, 5)) for name in scores} for _ in range(2)]
    joined = lambda name: np.concatenate([part[name].reshape(1, -1) for part in rows], 1)
    whole = {name: joined(name) for name in scores}
    y = RNG.normal(size=17)
    assert metrics(scores_by_row(rows, 17), y) == metrics(scores_by_row([whole], 17), y)


def test_targets_that_are_all_alike_have_no_r2():
    rows = {name: np.ones(4) for name in ("loss", "squares", "distance")}
    assert metrics(rows, np.full(4, 3.0)) == {"loss": 1.0, "r2": None, "mae": 1.0}


def test_a_model_of_classes_is_refused_for_targets():
    with pytest.raises(ScenarioError, match=r"model: logistic is for classes.*write linear"):
        fedsim.run(scenario(model="logistic"), data=DATA)
    with pytest.raises(ScenarioError, match="cross_entropy is for classes"):
        fedsim.run(scenario(model={"kind": "mlp", "loss": "cross_entropy"}), data=DATA)


def test_which_way_they_are_better():
    assert larger_is_better("test_r2") and not larger_is_better("test_mae")
    assert (worst("test_accuracy"), worst("test_r2"), worst("test_mae")) == (0.0, -np.inf, np.inf)
    assert validation_of("test_mae") == "validation_mae"


@pytest.mark.long
def test_a_run_reports_what_its_model_scores():
    sections = {
        "data": {"test": 0.25, "validation": 0.2, "standardize": True},
        "evaluate": {"metric": "test_r2"},
        "numerics": {"dtype": "float64"},
    }
    data = fedsim.Arrays(X * [1, 100, 0.01], Y, client=np.arange(60) % 4)
    result = fedsim.run(scenario(**sections), data=data)
    f = result.experiment.plans[0].federation
    W, b = (result.model()[name] for name in ("W", "b"))
    last = result.rounds.iloc[-1]
    for name in ("test", "validation"):
        x, y = map(np.asarray, getattr(f, name))
        error = x @ W + b - y
        r2 = 1 - (error**2).sum() / ((y - y.mean(0)) ** 2).sum()
        loss = 0.5 * (error**2).sum(1).mean()
        got = [last[f"{name}_{score}"] for score in ("r2", "mae", "loss")]
        assert got == pytest.approx([r2, np.abs(error).mean(), loss], rel=1e-10)
    held = [f.holders.of(k) for k in range(4)]
    own = [np.abs(f.train.x[rows] @ W + b - f.train.y[rows]).mean() for rows in held]
    assert result.clients["global_mae"].tolist() == pytest.approx(own, rel=1e-10)
    assert not {"test_accuracy", "global_accuracy"} & {*result.rounds, *result.clients}
    summary = result.summary.iloc[0]
    assert (summary["metric"], summary["final"]) == ("test_r2", last["test_r2"])


def test_the_headline_of_a_run_names_r2_and_mae():
    run = {"method": "fedavg", "seed": 0}
    rounds = [{**run, "round": r, "test_r2": r / 4, "test_mae": 0.7} for r in (0, 3)]
    text = headline([{**run, "metric": "test_loss", "final": 1.5}], rounds, ["fedavg"], "final")
    errors = "(R² 0.75, MAE 0.7) after 3 rounds, under one seed"
    assert text.startswith(f"fedavg ends with test loss 1.5 {errors}")


def test_a_metric_of_targets_is_refused_for_classes():
    line = r"evaluate\.metric: test_r2 is for targets that are numbers"
    with pytest.raises(ScenarioError, match=line):
        fedsim.run({"name": "classes", "data": "digits", "evaluate": {"metric": "test_r2"}})
