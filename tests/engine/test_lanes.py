"""Lanes ≡ plain vmap ≡ a Python loop over clients, and what follows from linear algebra."""

import numpy as np
import pytest

import fedsim
from fedsim.assemble import build, layout
from fedsim.engine.pack import longest_first, makespan, step_bound
from fedsim.scenario import read

pytestmark = pytest.mark.usefixtures("quickly_compiled")

X64 = {"dtype": "float64"}


def ragged(seed=0, clients=12, features=5, classes=3):
    """Random samples of clients of different size."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, clients)
    n = sizes.sum()
    return fedsim.Arrays(
        rng.normal(size=(n, features)),
        rng.integers(0, classes, n),
        np.repeat(np.arange(clients), sizes),
    )


def scenario(**sections):
    return {
        "name": "lanes",
        "rounds": 3,
        "client": {"lr": 0.3, "batch": 4, "epochs": 2, "shuffle": False},
        **sections,
    }


def by_hand(data, rounds=3, lr=0.3, B=4, epochs=2):
    """FedAvg of logistic regression with NumPy, one client after another."""
    x = np.asarray(data.x)
    y = np.asarray(data.y)
    owner = np.asarray(data.client)
    W = np.zeros((x.shape[1], y.max() + 1))
    b = np.zeros(y.max() + 1)
    for _ in range(rounds):
        W_sum = np.zeros_like(W)
        b_sum = np.zeros_like(b)
        for k in np.unique(owner):
            rows = np.flatnonzero(owner == k)
            w = W.copy()
            c = b.copy()
            for _ in range(epochs):
                for i in range(0, len(rows), B):
                    batch = rows[i : i + B]
                    odds = np.exp(x[batch] @ w + c)
                    error = odds / odds.sum(1, keepdims=True) - np.eye(len(b))[y[batch]]
                    w = w - lr * x[batch].T @ error / len(batch)
                    c = c - lr * error.mean(0)
            W_sum += len(rows) * (w - W)
            b_sum += len(rows) * (c - b)
        W = W + W_sum / len(y)
        b = b + b_sum / len(y)
    return {"W": W, "b": b}


def close(got, want, rtol=1e-12, atol=1e-14):
    for name in ("W", "b"):
        np.testing.assert_allclose(got[name], want[name], rtol=rtol, atol=atol)


@pytest.mark.quick(5)
@pytest.mark.parametrize("lanes", [1, 3, 5, 12, 20])
def test_lanes_match_the_plain_loop(lanes):
    data = ragged()
    got = fedsim.run(scenario(numerics={**X64, "lanes": lanes}), data=data).model()
    close(got, by_hand(data))


@pytest.mark.parametrize("seed", range(20))
def test_packing_is_within_graham_s_bound(seed):
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 50, 30)
    lanes = int(rng.integers(1, 9))
    queues = longest_first(steps, lanes)
    packed = [slot for queue in queues for slot in queue]
    assert sorted(packed) == np.flatnonzero(steps).tolist()

    best = max(steps.max(), -(-steps.sum() // lanes))
    assert makespan(queues, steps) <= (4 / 3) * best + 1
    assert makespan(queues, steps) <= step_bound(
        steps, lanes
    )  # which the engine's shapes allow for


@pytest.mark.long
def test_a_client_listed_twice_counts_twice():
    data = ragged()
    server = [{"kind": "mean", "weights": "uniform"}]

    def run(clients):
        cohort = {"kind": "listed", "rounds": [clients]}
        return fedsim.run(scenario(numerics=X64, cohort=cohort, server=server), data=data).model()

    assert np.abs(run([0, 0, 1])["W"] - run([1, 0])["W"]).max() > 1e-4


# 50 lanes of at most 64 train 100 clients in two turns. Hidden values of 26 rows take 10.4 MB, of
# which a lane holds 40: 16 GiB have room for 40 lanes.
@pytest.mark.quick(2)
@pytest.mark.parametrize(("batch", "lanes"), [(1, 50), (26, 40)])
def test_lanes_of_an_accelerator_fit_into_its_memory(monkeypatch, batch, lanes):
    monkeypatch.setattr(layout, "platform", lambda: "gpu")
    sections = scenario(
        data={"kind": "gaussian_blobs", "shape": [4], "samples": 3200, "clients": 100},
        model={"kind": "mlp", "hidden": [100_000]},
        cohort="all",
        client={"lr": 0.1, "batch": batch},
    )
    resolved = build(read(sections)).scenario
    assert resolved.spec.numerics.lanes == lanes
