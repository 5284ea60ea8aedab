"""Methods with a model for each client or component: FedAMP, FedProto, FedFomo and FedEM."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from near_points import CENTRES, COHORTS, NEAR, SIZES, D, local, log_softmax, means, played, points
from reference.scenarios import consecutive

import fedsim
from fedsim.compose import FAMILIES
from fedsim.models import mlp

long = pytest.mark.long


@long
def test_fedamp_is_that_of_the_paper():
    alpha, sigma, lam, lr = 0.3, 4.0, 0.5, 0.2
    client = {"kind": "fedamp", "alpha": alpha, "sigma": sigma, "lam": lam}
    _, result = played(COHORTS, client=client)

    w, seen = np.zeros((len(SIZES), D)), set()
    for cohort in COHORTS:
        before = w.copy()
        for i in cohort:
            u = before[i].copy()
            for j in seen - {i}:
                apart = before[j] - before[i]
                u += alpha / sigma * np.exp(-apart @ apart / sigma) * apart
            for _ in range(2):
                w[i] = w[i] - lr * (w[i] - means()[i] + lam / alpha * (w[i] - u))
        seen |= set(cohort)
    np.testing.assert_allclose(result.state()["client"]["w"], w, **NEAR)


@pytest.mark.long
def test_fedfomo_is_that_of_the_paper():
    """All samples of a client are equal, so that it is the same which of them it holds out."""
    owner = np.repeat(range(len(SIZES)), SIZES)
    client = {"kind": "fedfomo", "models": 8, "held_out": 0.3}
    seen, result = played(COHORTS * 2, lr=0.05, client=client, x=CENTRES[owner])

    sizes = np.array(SIZES, float)
    x, w, joined = np.zeros(D), np.zeros((len(SIZES), D)), set()
    moved = 0
    for cohort in COHORTS * 2:
        before = w.copy()
        for i in cohort:
            loss = lambda model, i=i: 0.5 * ((model - CENTRES[i]) ** 2).sum()
            gains = {}
            for j in joined - {i}:
                apart = np.linalg.norm(before[j] - before[i])
                gain = max(0, loss(before[i]) - loss(before[j]))
                if apart > 0 and gain > 0 and SIZES[i] > 1:
                    gains[j] = gain / apart
            for j, gain in gains.items():
                w[i] += gain / sum(gains.values()) * (before[j] - before[i])
            moved += len(gains) > 1
            w[i] += local(w[i], CENTRES[i], lr=0.05)
        joined |= set(cohort)
        x = x + sizes[cohort] @ (w[cohort] - x) / sizes[cohort].sum()
    assert moved >= 3  # several models were better
    np.testing.assert_allclose(result.state()["client"]["w"], w, **NEAR)
    np.testing.assert_allclose(seen[-1], x, **NEAR)


@long
def test_fedfomo_draws_every_other_client_equally_often():
    """From a bank of models that are the clients' ids: no client gets its own, or one twice."""
    sends = FAMILIES["client"]["fedfomo"](models=3).travel.sends
    keys = jax.random.split(jax.random.key(1), 400)
    rows = {"w": jnp.arange(9), "lot": jnp.arange(9, dtype=jnp.uint32) ** 2}
    seen = jnp.arange(9) < 7

    @jax.jit
    def drawn(rows, seen):
        return jax.lax.map(lambda key: sends(rows, seen, jnp.asarray(2), None, key), keys)

    sent = drawn(rows, seen)
    chosen = np.asarray(sent["w"])
    assert sent["valid"].all() and (np.diff(np.sort(chosen), axis=1) > 0).all()
    share = np.bincount(chosen.ravel(), minlength=9) / len(keys)
    np.testing.assert_allclose(share, [0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5, 0, 0], atol=0.1)

    # Rows of clients that have not taken part change no draw.
    fewer = drawn({name: row[:7] for name, row in rows.items()}, seen[:7])
    np.testing.assert_array_equal(fewer["w"], chosen)


@long
def test_fedem_is_that_of_the_paper():
    k, lr, C = 2, 0.3, 3
    rng = np.random.default_rng(5)
    x, owner = points()
    y = rng.integers(0, C, len(x))
    theta = rng.normal(size=(k, D, C)) * 0.3
    written = {
        "name": "points",
        "rounds": len(COHORTS),
        "data": {"clients": len(SIZES), "test": 0.0},
        "cohort": {"kind": "listed", "rounds": COHORTS},
        "numerics": {"dtype": "float64"},
        "client": {"kind": "fedem", "components": k, "lr": lr, "batch": "full", "epochs": 2},
    }
    model = (lambda key: {"W": jnp.zeros((D, C))}), (lambda p, x: x @ p["W"])
    params = {"theta": {"W": theta}, "pi": np.full(k, 1 / k)}
    given = {"data": fedsim.Arrays(x, y), "model": model, "params": params}
    result = fedsim.run(written, **given, partition=consecutive(SIZES))

    pi = np.full((len(SIZES), k), 1 / k)
    sizes = np.array(SIZES, float)
    for cohort in COHORTS:
        deltas = []
        for i in cohort:
            rows = np.flatnonzero(owner == i)
            hits = lambda w, rows=rows: log_softmax(x[rows] @ w)[np.arange(len(rows)), y[rows]]
            q = pi[i] * np.exp(np.array([hits(w) for w in theta])).T  # [n, k]
            q /= q.sum(1, keepdims=True)
            trained = theta.copy()
            for _ in range(2):
                for m in range(k):
                    p = np.exp(log_softmax(x[rows] @ trained[m]))
                    p[np.arange(len(rows)), y[rows]] -= 1
                    trained[m] = trained[m] - lr * x[rows].T @ (q[:, m : m + 1] * p) / len(rows)
            pi[i] = q.mean(0)
            deltas.append(trained - theta)
        theta = theta + np.tensordot(sizes[cohort] / sizes[cohort].sum(), deltas, 1)
    state = result.state()
    np.testing.assert_allclose(state["server"]["theta"]["W"], theta, **NEAR)
    np.testing.assert_allclose(state["client"]["pi"], pi, **NEAR)


MAKING_MODELS = [
    name for name, factory in FAMILIES["client"].items() if factory().model is not None
]


@pytest.mark.quick(4)
@pytest.mark.parametrize("kind", MAKING_MODELS)
def test_a_method_that_makes_its_model_begins_at_the_start_model_that_is_passed(kind):
    """As at that of the scenario's model, or at several: all other leaves are as they are drawn."""
    client = FAMILIES["client"][kind]()
    model = mlp([4])((5,), 3)
    net = client.model(model, jax.ShapeDtypeStruct((1, 5), jnp.float32))
    drawn = net.init(jax.random.key(0))["params"]
    passed = model.init(jax.random.key(7))["params"]

    begun = net.begins(drawn, [passed] * 3 if kind == "fedem" else passed)
    assert jax.tree.structure(begun) == jax.tree.structure(drawn)
    from_drawn = {id(leaf) for leaf in jax.tree.leaves(drawn)}
    others = [leaf for leaf in jax.tree.leaves(begun) if id(leaf) not in from_drawn]
    for leaf, expected in zip(others, jax.tree.leaves(passed), strict=True):
        np.testing.assert_array_equal(leaf, np.broadcast_to(expected, leaf.shape))
