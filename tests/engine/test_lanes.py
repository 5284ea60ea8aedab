"""Lanes ≡ plain vmap ≡ a Python loop over clients, and what follows from linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import sampled

import fedsim
from fedsim import tree
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


@pytest.mark.parametrize("lanes", sampled([5, 1, 3, 20, 12], 4))
def test_lanes_match_the_plain_loop(lanes):
    data = ragged()
    got = fedsim.run(scenario(numerics={**X64, "lanes": lanes}), data=data).model()
    close(got, by_hand(data))


@pytest.mark.long
def test_lanes_match_the_padded_vmap():
    """The tutorial's form: in_axes=(None, 0), padding masked, weighted tree sum."""
    data = ragged()
    owner = np.asarray(data.client)
    sizes = np.bincount(owner)
    largest = sizes.max()

    # [n, ...] -> [clients, largest, ...]
    x = np.zeros((len(sizes), largest, data.x.shape[1]))
    y = np.zeros((len(sizes), largest), int)
    for k, n in enumerate(sizes):
        x[k, :n] = data.x[owner == k]
        y[k, :n] = data.y[owner == k]

    with jax.enable_x64(True):
        mask = jnp.arange(largest) < sizes[:, None]

        def train(shared, x, y, mask):
            def loss(p):
                each = -jax.nn.log_softmax(x @ p["W"] + p["b"])[jnp.arange(len(y)), y]
                return jnp.sum(each * mask) / mask.sum()

            p = shared
            for _ in range(4):
                p = jax.tree.map(lambda a, g: a - 0.3 * g, p, jax.grad(loss)(p))
            return jax.tree.map(jnp.subtract, p, shared)

        shared = {"W": jnp.zeros((5, 3)), "b": jnp.zeros(3)}
        for _ in range(3):
            stack = jax.vmap(train, in_axes=(None, 0, 0, 0))(shared, x, y, mask)
            mean = tree.weighted_mean(stack, jnp.asarray(sizes, float))
            shared = jax.tree.map(jnp.add, shared, mean)
    client = {"lr": 0.3, "batch": "full", "steps": 4}
    got = fedsim.run(scenario(client=client, numerics=X64), data=data).model()
    close(got, shared)


@pytest.mark.long
def test_one_full_batch_step_is_centralised_gradient_descent():
    data = ragged()
    one_client = data._replace(client=np.zeros(len(data.y)))
    client = {"lr": 0.7, "batch": "full", "steps": 1}
    written = scenario(rounds=8, client=client, numerics=X64)
    federated = fedsim.run(written, data=data).model()
    close(federated, fedsim.run(written, data=one_client).model())


@pytest.mark.long
def test_a_client_split_in_two_changes_nothing_under_full_batches():
    data = ragged()
    halves = np.asarray(data.client) * 2 + np.arange(len(data.y)) % 2
    written = scenario(client={"lr": 0.7, "batch": "full", "steps": 1}, numerics=X64)
    once = fedsim.run(written, data=data).model()
    split = fedsim.run(written, data=data._replace(client=halves)).model()
    close(once, split)


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


def test_lane_efficiency_on_lognormal_sizes():
    """100 of 1,000 clients, sizes lognormal(σ = 1), 5 epochs of batch 10, 16 lanes."""
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.lognormal(np.log(50) - 0.5, 1.0, 1000).round(), 5, 1000).astype(int)
    useful = 0
    total = 0
    for r in range(20):
        cohort = np.random.default_rng(r).choice(1000, 100, replace=False)
        steps = 5 * -(-sizes[cohort] // 10)
        useful += steps.sum()
        total += 16 * makespan(longest_first(steps, 16), steps)
    assert useful / total > 0.9


@pytest.mark.long
def test_client_optimizer_starts_afresh_each_round():
    """Rounds of one step are the same with and without momentum, whose buffer must not leak."""
    data = ragged()
    plain = {"lr": 0.3, "batch": "full", "steps": 1}
    momentum = {**plain, "optimizer": {"kind": "sgd", "momentum": 0.9}}
    without = fedsim.run(scenario(client=plain, numerics=X64), data=data).model()
    with_it = fedsim.run(scenario(client=momentum, numerics=X64), data=data).model()
    close(without, with_it, rtol=1e-13, atol=1e-15)


@pytest.mark.long
def test_uniform_and_step_weights_differ_from_sample_counts():
    data = ragged()
    client = {"lr": 0.3, "batch": "full", "steps": 2}
    by = {}
    for weights in ("samples", "uniform", "steps"):
        server = [{"kind": "mean", "weights": weights}]
        written = scenario(client=client, numerics=X64, server=server)
        by[weights] = fedsim.run(written, data=data).model()["W"]
    np.testing.assert_array_equal(by["uniform"], by["steps"])  # everybody takes two steps
    assert np.abs(by["uniform"] - by["samples"]).max() > 1e-3


@pytest.mark.long
def test_a_client_listed_twice_counts_twice():
    data = ragged()
    server = [{"kind": "mean", "weights": "uniform"}]

    def run(clients):
        cohort = {"kind": "listed", "rounds": [clients]}
        return fedsim.run(scenario(numerics=X64, cohort=cohort, server=server), data=data).model()

    twice = run([0, 0, 1])
    once = run([0, 1])
    assert np.abs(twice["W"] - once["W"]).max() > 1e-4
    np.testing.assert_array_equal(once["W"], run([1, 0])["W"])


# 50 lanes of at most 64 train 100 clients in two turns. Hidden values of 26 rows take 10.4 MB, of
# which a lane holds 40: 16 GiB have room for 40 lanes.
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
