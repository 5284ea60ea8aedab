"""Lanes ≡ plain vmap ≡ a Python loop over clients, and what follows from linear algebra."""

import numpy as np
import pytest

import fedsim
from fedsim.assemble import build, layout
from fedsim.engine.pack import longest_first, makespan, step_bound
from fedsim.scenario import read

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


def by_hand(data, cohort=None, rounds=3, lr=0.3, B=4, epochs=2, norm=np.inf):
    """FedAvg of logistic regression with NumPy, one client after another.

    Args:
      cohort: the clients of every round; None: all.
      norm: to which the gradient of every sample is clipped.
    """
    x, y, owner = np.asarray(data.x), np.asarray(data.y), np.asarray(data.client)
    W, b = np.zeros((x.shape[1], y.max() + 1)), np.zeros(y.max() + 1)
    for _ in range(rounds):
        W_sum, b_sum, n = 0, 0, 0
        for k in np.unique(owner) if cohort is None else cohort:
            rows, w, c = np.flatnonzero(owner == k), W, b
            for _ in range(epochs):
                for i in range(0, len(rows), B):
                    batch = rows[i : i + B]
                    odds = np.exp(x[batch] @ w + c)
                    error = odds / odds.sum(1, keepdims=True) - np.eye(len(b))[y[batch]]
                    # The gradient of a sample is the outer product of (x, 1) and its error.
                    length = np.sqrt(((x[batch] ** 2).sum(1) + 1) * (error**2).sum(1))
                    error = error * np.minimum(1, norm / length)[:, None]
                    w = w - lr * x[batch].T @ error / len(batch)
                    c = c - lr * error.mean(0)
            W_sum = W_sum + len(rows) * (w - W)
            b_sum = b_sum + len(rows) * (c - b)
            n += len(rows)
        W, b = W + W_sum / n, b + b_sum / n
    return {"W": W, "b": b}


@pytest.mark.quick(5)
@pytest.mark.parametrize("lanes", [1, 3, 5, 12, 20])
def test_lanes_match_the_plain_loop(lanes):
    """A client that is listed twice counts twice."""
    data, cohort = ragged(), [*range(12), 0, 7, 0]
    client = {"lr": 0.3, "batch": 4, "epochs": 2, "shuffle": False}
    written = {"name": "lanes", "rounds": 3, "client": client}
    written |= {"cohort": {"kind": "listed", "rounds": [cohort]}}
    got = fedsim.run({**written, "numerics": {**X64, "lanes": lanes}}, data=data).model()
    for name, want in by_hand(data, cohort).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-12, atol=1e-14)


def test_packing_is_within_graham_s_bound():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        steps = rng.integers(0, 50, 30)
        lanes = int(rng.integers(1, 9))
        queues = longest_first(steps, lanes)
        packed = [slot for queue in queues for slot in queue]
        assert sorted(packed) == np.flatnonzero(steps).tolist()

        best = max(steps.max(), -(-steps.sum() // lanes))
        assert makespan(queues, steps) <= (4 / 3) * best + 1
        assert makespan(queues, steps) <= step_bound(steps, lanes)  # the engine's shapes hold it


# 50 lanes of at most 64 train 100 clients in two turns. Hidden values of 26 rows take 10.4 MB, of
# which a lane holds 40: 16 GiB have room for 40 lanes.
@pytest.mark.quick(2)
@pytest.mark.parametrize(("batch", "lanes"), [(1, 50), (26, 40)])
def test_lanes_of_an_accelerator_fit_into_its_memory(monkeypatch, batch, lanes):
    monkeypatch.setattr(layout, "platform", lambda: "gpu")
    data = {"kind": "gaussian_blobs", "shape": [4], "samples": 3200, "clients": 100}
    written = {"name": "lanes", "data": data, "cohort": "all", "client": {"batch": batch}}
    written |= {"model": {"kind": "mlp", "hidden": [100_000]}}
    assert build(read(written)).scenario.spec.numerics.lanes == lanes
