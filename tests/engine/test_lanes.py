"""The stacked axis: lanes ≡ plain vmap ≡ a Python loop over clients, and what follows from linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import sampled

import fedsim
from fedsim.engine.pack import bound, longest_first, makespan

X64 = {"dtype": "float64"}


def ragged(seed=0, clients=12, features=5, classes=3):
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
    x, y, owner = np.asarray(data.x), np.asarray(data.y), np.asarray(data.client)
    W, b = np.zeros((x.shape[1], y.max() + 1)), np.zeros(y.max() + 1)
    for _ in range(rounds):
        step, total = [0.0, 0.0], 0
        for k in np.unique(owner):
            rows = np.flatnonzero(owner == k)
            w, c = W.copy(), b.copy()
            for _ in range(epochs):
                for i in range(0, len(rows), B):
                    part = rows[i : i + B]
                    p = np.exp(x[part] @ w + c)
                    p = p / p.sum(1, keepdims=True) - np.eye(len(b))[y[part]]
                    w, c = w - lr * x[part].T @ p / len(part), c - lr * p.mean(0)
            step = [step[0] + len(rows) * (w - W), step[1] + len(rows) * (c - b)]
            total += len(rows)
        W, b = W + step[0] / total, b + step[1] / total
    return {"W": W, "b": b}


@pytest.mark.parametrize("lanes", sampled([5, 1, 3, 20, 12], 4))
def test_lanes_are_the_plain_loop(lanes):
    data = ragged()
    got = fedsim.run(scenario(numerics={**X64, "lanes": lanes}), data=data).model()
    want = by_hand(data)
    np.testing.assert_allclose(got["W"], want["W"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(got["b"], want["b"], rtol=1e-12, atol=1e-14)


def test_lanes_are_the_padded_vmap():
    """The tutorial's form: in_axes=(None, 0), padding masked, weighted tree sum."""
    data = ragged()
    owner = np.asarray(data.client)
    sizes = np.bincount(owner)
    with jax.enable_x64(True):
        x, y = (
            np.stack(
                [
                    np.pad(a[owner == k], [(0, sizes.max() - n)] + [(0, 0)] * (a.ndim - 1))
                    for k, n in enumerate(sizes)
                ]
            )
            for a in (data.x, data.y)
        )
        mask = jnp.arange(sizes.max()) < sizes[:, None]

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
            mean = fedsim.tree.weighted_mean(stack, jnp.asarray(sizes, float))
            shared = jax.tree.map(jnp.add, shared, mean)
    client = {"lr": 0.3, "batch": "full", "steps": 4}
    got = fedsim.run(scenario(client=client, numerics=X64), data=data).model()
    np.testing.assert_allclose(got["W"], shared["W"], rtol=1e-12, atol=1e-14)


@pytest.mark.long
def test_one_full_batch_step_is_centralised_gradient_descent():
    data = ragged()
    client = {"lr": 0.7, "batch": "full", "steps": 1}
    federated = fedsim.run(scenario(rounds=8, client=client, numerics=X64), data=data).model()
    alone = fedsim.run(
        scenario(rounds=8, client=client, numerics=X64),
        data=data._replace(client=np.zeros(len(data.y))),
    )
    np.testing.assert_allclose(federated["W"], alone.model()["W"], rtol=1e-12, atol=1e-14)


@pytest.mark.long
def test_a_client_split_in_two_changes_nothing_under_full_batches():
    data = ragged()
    halves = np.asarray(data.client) * 2 + np.arange(len(data.y)) % 2
    client = {"lr": 0.7, "batch": "full", "steps": 1}
    a = fedsim.run(scenario(client=client, numerics=X64), data=data).model()
    b = fedsim.run(scenario(client=client, numerics=X64), data=data._replace(client=halves)).model()
    np.testing.assert_allclose(a["W"], b["W"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_packing_is_within_graham_s_bound(seed):
    rng = np.random.default_rng(seed)
    steps, lanes = rng.integers(0, 50, 30), int(rng.integers(1, 9))
    queues = longest_first(steps, lanes)
    assert sorted(k for q in queues for k in q) == np.flatnonzero(steps).tolist()
    best = max(steps.max(), -(-steps.sum() // lanes))
    assert makespan(queues, steps) <= (4 / 3) * best + 1
    assert makespan(queues, steps) <= bound(steps, lanes)  # the room that the engine keeps


def test_lane_efficiency_on_lognormal_sizes():
    """W2's federation: 100 of 1,000 clients, sizes lognormal(σ = 1), 5 epochs of batch 10, 16 lanes."""
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.lognormal(np.log(50) - 0.5, 1.0, 1000).round(), 5, 1000).astype(int)
    useful = total = 0
    for r in range(20):
        steps = 5 * -(-sizes[np.random.default_rng(r).choice(1000, 100, replace=False)] // 10)
        useful, total = useful + steps.sum(), total + 16 * makespan(longest_first(steps, 16), steps)
    assert useful / total > 0.9


@pytest.mark.long
def test_client_optimizer_starts_afresh_each_round():
    """Two rounds of one step with momentum are two rounds without: a buffer that leaked would show."""
    data, plain = ragged(), {"lr": 0.3, "batch": "full", "steps": 1}
    momentum = {**plain, "optimizer": {"kind": "sgd", "momentum": 0.9}}
    a = fedsim.run(scenario(client=plain, numerics=X64), data=data).model()
    b = fedsim.run(scenario(client=momentum, numerics=X64), data=data).model()
    np.testing.assert_allclose(a["W"], b["W"], rtol=1e-13, atol=1e-15)


@pytest.mark.long
def test_uniform_and_step_weights():
    data = ragged()
    client = {"lr": 0.3, "batch": "full", "steps": 2}
    by = {
        w: fedsim.run(
            scenario(client=client, numerics=X64, server=[{"kind": "mean", "weights": w}]),
            data=data,
        ).model()["W"]
        for w in ("samples", "uniform", "steps")
    }
    np.testing.assert_array_equal(by["uniform"], by["steps"])  # everybody takes two steps
    assert np.abs(by["uniform"] - by["samples"]).max() > 1e-3


@pytest.mark.long
def test_a_client_listed_twice_counts_twice():
    data = ragged()
    run = lambda rounds, server: fedsim.run(
        scenario(numerics=X64, cohort={"kind": "listed", "rounds": rounds}, server=server),
        data=data,
    ).model()["W"]
    uniform = [{"kind": "mean", "weights": "uniform"}]
    twice, once = run([[0, 0, 1]], uniform), run([[0, 1]], uniform)
    assert np.abs(twice - once).max() > 1e-4
    np.testing.assert_array_equal(run([[0, 1]], uniform), run([[1, 0]], uniform))
