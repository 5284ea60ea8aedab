"""kNN-Per against NumPy."""

import numpy as np
import pytest
from conftest import if_whole

import fedsim

K, LAM, SCALE = 5, 0.4, 0.02
SCENARIO = {
    "name": "neighbours",
    "rounds": 2,
    "data": {
        "kind": "digits",
        "clients": 12,
        "client_test": 0.3,
        "test": {"clients": 0.2},
        "partition": {"kind": "dirichlet", "alpha": 0.3, "min_samples": 2},
    },
    "model": {"kind": "mlp", "hidden": [8]},
    "cohort": {"kind": "uniform", "size": 4},
    "client": {"lr": 0.2, "batch": 16},
    "server": ["mean", {"kind": "sgd", "lr": 0.7}],
    "numerics": {"dtype": "float64"},
    "evaluate": {"every": 2},
}


def mixture(features, outputs, own, own_labels):
    """As the authors' `gather_knn_outputs` and `evaluate`, for one sample."""
    p = np.exp(outputs - outputs.max())
    p /= p.sum()
    square = ((own - features) ** 2).sum(1)
    nearest = np.argsort(square, kind="stable")[:K]
    similarity = np.exp(-square[nearest] / (len(features) * SCALE))
    h = np.bincount(own_labels[nearest], similarity, minlength=len(p)) / similarity.sum()
    return LAM * h + (1 - LAM) * p


@if_whole
@pytest.mark.long
def test_scores_are_those_of_the_authors():
    """Of clients that train, and of those that never take part, who have samples at hand too."""
    client = {**SCENARIO["client"], "kind": "knn_per", "k": K, "lam": LAM, "scale": SCALE}
    result = fedsim.run({**SCENARIO, "client": client})
    federation = result.experiment.plans[0].federation
    params = result.model()
    x = federation.train.x.reshape(len(federation.train.x), -1).astype(float) * federation.scale
    hidden = np.maximum(x @ params["layer0"]["W"] + params["layer0"]["b"], 0)
    outputs = hidden @ params["layer1"]["W"] + params["layer1"]["b"]

    scored = 0
    for i, row in result.clients.iterrows():
        own = federation.tuned.holders.of(i)
        test = federation.test_holders.of(i)
        if not len(test):
            continue
        y = federation.train.y
        p = np.array([mixture(hidden[s], outputs[s], hidden[own], y[own]) for s in test])
        of_label = p[np.arange(len(test)), y[test]]
        assert row["personal_loss"] == pytest.approx(-np.log(of_label).mean(), rel=1e-6)
        assert row["personal_accuracy"] == pytest.approx((p.argmax(1) == y[test]).mean())
        said = np.exp(result.predict(federation.train.x[test], client=i))
        np.testing.assert_allclose(said / said.sum(1, keepdims=True), p, rtol=1e-6, atol=1e-9)
        scored += 1
    assert scored == 12


@pytest.mark.long
def test_a_client_with_a_single_sample_has_one_neighbour():
    client = {"kind": "knn_per", "k": 100, "lam": 1.0, "lr": 0.2, "batch": 16}
    data = {**SCENARIO["data"], "partition": "iid", "clients": 500, "client_test": 0.5}
    scores = fedsim.run({**SCENARIO, "data": {**data, "test": 0.0}, "client": client}).clients
    assert np.isfinite(scores["personal_loss"].dropna()).all()
