"""Runs with each loss: which samples it takes, weights of classes, sets of labels, own losses."""

import contextlib
import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.errors import DataError, ScenarioError
from fedsim.scenario import read
from fedsim.types import Loss

RNG = np.random.default_rng(3)
N, FEATURES = 60, 4
X = RNG.normal(size=(N, FEATURES))
SLOPES = RNG.normal(size=(FEATURES, 3))
CLASSES = (X @ SLOPES).argmax(1)
NUMBERS = X @ [1.0, -2.0, 0.5, 1.0] + 0.3 * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0])).astype(float)
LABELS = (X @ SLOPES > 0).astype(float)
MODEL_OF_LABELS = {"kind": "linear", "loss": "binary_cross_entropy"}
OWNERS = np.repeat([0, 1, 2, 3, 4, 5], [1, 19, 10, 10, 10, 10])  # batches of 4 are not full


@contextlib.contextmanager
def without_warnings():
    """The warnings of `balanced_by_client` have a test of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def run(y, loss, *, model="linear", client=None, params=None, **sections):
    """A run in which 3 of 6 clients take part, and batches are padded."""
    model = {"kind": model, **({} if loss is None else {"loss": loss})}
    scenario = {
        "name": "losses",
        "rounds": 4,
        "model": model,
        "cohort": {"kind": "uniform", "size": 3},
        "client": {"lr": 0.1, "batch": 4, **(client or {})},
        "data": {"test": 0.2},
        "evaluate": {"metric": "test_loss"},
        "numerics": {"dtype": "float64"},
        **sections,
    }
    data = None if y is None else fedsim.Arrays(X, y, client=OWNERS)
    return fedsim.run(scenario, data=data, params=params)


def test_counts_are_predicted_as_rates():
    params = {"W": SLOPES[:, :1], "b": np.ones(1)}
    evaluate = {"metric": "test_mae", "metrics": ["rmse"]}
    result = run(COUNTS, "poisson", params=params, rounds=0, evaluate=evaluate)
    wanted = np.exp(X @ params["W"] + params["b"])
    np.testing.assert_allclose(result.predict(X), wanted, rtol=1e-6)


def test_sets_of_labels_are_columns_of_their_sorted_names():
    names = ["cold", "dry", "wet"]
    sets = [{names[label] for label in np.flatnonzero(row)} for row in LABELS]
    params = {"W": SLOPES + 0.5, "b": np.zeros(3)}
    result = run(sets, "binary_cross_entropy", params=params, rounds=0)
    assert "test_mae" not in result.rounds
    federation = result.experiment.plans[0].federation
    for part in (federation.train, federation.test):
        np.testing.assert_array_equal(part.y, LABELS[[row_of(x) for x in part.x]])

    test = federation.test
    hits = (result.predict(test.x) > 0) == (test.y > 0)  # by the signs of the outputs
    assert result.rounds["test_accuracy"].iloc[-1] == pytest.approx(hits.mean())
    assert 0.5 < hits.mean() < 1


def one_step(loss, y, client=None):
    """The parameters after one full-batch step of all clients with the learning rate 1."""
    scenario = {
        "name": "step",
        "rounds": 1,
        "model": {"kind": "logistic", "loss": loss},
        "client": {"lr": 1.0, "batch": "full", **(client or {})},
        "server": ["mean"],
        "data": {"test": 0},
        "numerics": {"dtype": "float64"},
    }
    with without_warnings():
        result = fedsim.run(scenario, data=fedsim.Arrays(X, y, client=OWNERS))
    return np.asarray(result.model()["W"])


def step_of_weights(weights):
    """−gradient of Σ_j w_j ℓ_j / n at zero, where all probabilities are 1/3."""
    errors = np.eye(3)[CLASSES] - 1 / 3
    return X.T @ (weights[:, None] * errors) / N


@pytest.mark.long
def test_balanced_weights_are_over_the_samples_of_all_clients():
    counts = np.bincount(CLASSES)
    wanted = step_of_weights((N / (3 * counts))[CLASSES])
    moved = one_step("cross_entropy(class_weights=balanced)", CLASSES)
    np.testing.assert_allclose(moved, wanted, rtol=1e-9, atol=1e-12)


def test_weights_by_client_are_over_its_own_samples_and_classes():
    weights = np.ones(N)
    for owner in np.unique(OWNERS):
        own = OWNERS == owner
        counts = np.bincount(CLASSES[own], minlength=3)
        present = (counts > 0).sum()
        weights[own] = (own.sum() / (present * np.maximum(counts, 1)))[CLASSES[own]]
    moved = one_step("cross_entropy(class_weights=balanced_by_client)", CLASSES)
    np.testing.assert_allclose(moved, step_of_weights(weights), rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_clients_of_a_single_class_are_named():
    with pytest.warns(UserWarning, match="client 0 has samples of one class, which count as"):
        run(CLASSES, "cross_entropy(class_weights=balanced_by_client)", model="logistic")


@pytest.mark.long
@pytest.mark.parametrize(
    "loss", ["focal", "hinge", "cross_entropy(class_weights=[1, 2, 0.5], smoothing=0.2)"]
)
def test_samples_that_are_clipped_one_by_one_take_every_loss(loss):
    """With a bound that nobody reaches, the steps are those without privacy."""
    private = {"shuffle": "poisson", "dp_sgd": {"clip": 1e6, "noise_multiplier": 0}}
    plain = one_step(loss, CLASSES, client={"shuffle": False})
    clipped = one_step(loss, CLASSES, client=private)
    np.testing.assert_allclose(clipped, plain, rtol=1e-9, atol=1e-12)


FLOATS = CLASSES.astype(float)
ROWS = np.eye(3)[CLASSES]
UNCLEAR = "without decimals, which may be numbers or classes; give y.astype"
REFUSED = {  # what the targets are -> targets, the loss, what is refused in one line
    "numbers of a loss for classes": (
        NUMBERS,
        "focal",
        "focal is for classes and labels of tokens, and these targets are numbers; write squared",
    ),
    "whole numbers": (
        FLOATS,
        "cross_entropy",
        r"numbers without decimals \(y.astype\(int\) makes classes of them\)",
    ),
    "one-hot rows": (
        ROWS,
        "hinge",
        r"numbers in one-hot rows \(y.argmax\(1\) makes classes of them\)",
    ),
    "classes of a loss for numbers": (
        CLASSES,
        "huber",
        "for targets that are numbers, and these are classes; write cross_entropy, focal",
    ),
    "classes of a loss for labels": (
        CLASSES,
        "binary_cross_entropy",
        "for samples with any number of labels, and these are classes",
    ),
    "counts below zero": (COUNTS - 1, "poisson", "poisson is for counts, and there is a target -1"),
    "labels that are neither 0 nor 1": (
        2 * LABELS,
        "binary_cross_entropy",
        "for a 0 or 1 of each label, and there is a target 2",
    ),
    "no weight at all": (
        CLASSES,
        "cross_entropy(class_weights=[0, 0, 0])",
        "all weights are 0, so that no sample counts",
    ),
    "whole numbers, without a loss": (FLOATS, None, f"targets are 0.0 to 2.0 {UNCLEAR}"),
    "one-hot rows, without a loss": (ROWS, None, "rows of 3 numbers with a single 1, as of"),
    "a column, without a loss": (CLASSES[:, None] + 1.0, None, "are 1.0 to 3.0 without decimals"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_samples_that_do_not_suit_it_are_refused(name):
    y, loss, text = REFUSED[name]
    model = "linear" if np.issubdtype(np.asarray(y).dtype, np.floating) else "logistic"
    for each in {model, "logistic" if loss is None else model}:
        with pytest.raises(ScenarioError, match=text) as raised:
            run(y, loss, model=each)
        assert len(str(raised.value).splitlines()) == 1


def test_labels_are_columns_of_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["a", "b", "c"]
    labels = pd.DataFrame(LABELS.astype(int), columns=names)
    table = pd.concat([pd.DataFrame(X), labels], axis=1).assign(client=OWNERS)
    table.to_csv("sick.csv", index=False)
    table.astype({"b": bool}).to_csv("truth.csv", index=False)
    for path in ("sick.csv", "truth.csv"):
        data = {"kind": "csv", "path": path, "target": names}
        scenario = read({"name": "sets", "data": data, "model": MODEL_OF_LABELS})
        train = federations_of(scenario, None, np.dtype("float64"))[0].train
        assert len(train.y) > 0
        np.testing.assert_array_equal(train.y, LABELS[[row_of(x) for x in train.x]])


def row_of(x) -> int:
    """Which of all samples this is."""
    return int(np.abs(X - x).sum(1).argmin())


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (["a", "b"], "targets are 0 or 1 in 2 columns, as of samples with several labels"),
        (["a", "a"], "column 'a' is named twice as target"),
        (["a", "ab"], "target: no column 'ab'; did you mean 'a'"),
        ([], r"data.target: .*found an empty list"),
    ],
)
def test_columns_of_labels_are_refused_in_one_line(target, line):
    table = pd.DataFrame({"x": X[:, 0], "a": LABELS[:, 0], "b": LABELS[:, 1]})
    scenario = {"name": "sets", "model": "linear", "data": {"target": target, "clients": 3}}
    with pytest.raises((ScenarioError, DataError), match=line) as refused:
        fedsim.run(scenario, data=table)
    assert len(str(refused.value).splitlines()) == 1


def test_sets_need_the_loss_that_takes_them():
    with pytest.raises(DataError, match=r"sets of labels; write model.loss: binary_cross_entropy"):
        run([{"a"}] * N, None)
    with pytest.raises(DataError, match=r"row 1 is 'b'; labels are all sets"):
        run([{"a"}, "b"] * (N // 2), "binary_cross_entropy")


def test_whoever_names_loss_or_task_is_not_asked():
    numbers = CLASSES.astype(float)
    for loss, data in (("squared", {"test": 0.2}), (None, {"test": 0.2, "task": "regression"})):
        assert "test_mae" in run(numbers, loss, data=data, rounds=0).rounds


def test_methods_of_the_softmax_refuse_losses_without_one():
    with pytest.raises(ScenarioError, match="fedrod changes or compares"):
        run(CLASSES, "squared", model="logistic", client={"kind": "fedrod"})


def test_a_loss_of_ones_own_is_a_kind_and_may_take_more_outputs():
    def own_normal(floor: float = 0.1):
        """A normal distribution around the prediction, of a variance that is predicted as well."""

        def of(outputs, y):
            mean, log_variance = outputs[:, 0], outputs[:, 1]
            variance = jnp.exp(log_variance) + floor
            return 0.5 * (jnp.log(variance) + (y.reshape(-1) - mean) ** 2 / variance)

        return Loss(of, targets=frozenset({"numbers"}), outputs=2, predicts=lambda o: o[:, :1])

    fedsim.loss(own_normal)
    result = run(NUMBERS, "own_normal(floor=0.2)")
    assert result.rounds["test_loss"].iloc[-1] < result.rounds["test_loss"].iloc[0]
    assert result.predict(X).shape == (N, 1)
    assert "test_mae" in result.rounds
