"""Sequences whose tokens have labels, and features that stay bytes until a model reads them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.data import Pool, federate, iid, prepare
from fedsim.sources.arrays import validate

RNG = np.random.default_rng(0)
V, T = 5, 6
X = RNG.integers(0, V, (24, T))
Y = np.where(RNG.random((24, T)) < 0.3, -1, (X + 1) % V)
CLIENT = np.repeat([0, 1, 2], [4, 12, 8])
SCENARIO = {
    "name": "tokens",
    "rounds": 3,
    "data": {"kind": "supplied", "test": 0},
    "client": {"lr": 0.5, "batch": 4, "epochs": 1, "shuffle": False},
    "numerics": {"dtype": "float64"},
}
BIGRAM = (lambda key: {"table": jnp.zeros((V, V))}, lambda params, x: params["table"][x])


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mean_loss(table, x, y):
    counts = y >= 0
    p = softmax(table[x])
    each = -np.log(np.take_along_axis(p, np.maximum(y, 0)[..., None], -1)[..., 0])
    return each[counts].sum() / counts.sum(), (p.argmax(-1) == y)[counts].mean()


def reference(rounds):
    """FedAvg of a table of next-token logits; a batch's loss is a mean over its labelled tokens."""
    table = np.zeros((V, V))
    for _ in range(rounds):
        total = np.zeros_like(table)
        for k in range(3):
            own, rows = table.copy(), np.flatnonzero(CLIENT == k)
            for first in range(0, len(rows), 4):
                x, y = X[rows[first : first + 4]], Y[rows[first : first + 4]]
                g, counts = softmax(own[x]) - np.eye(V)[np.maximum(y, 0)], (y >= 0)[..., None]
                gradient = np.zeros_like(own)
                np.add.at(gradient, x, g * counts / counts.sum())
                own -= 0.5 * gradient
            total += len(rows) * (own - table)
        table = table + total / len(X)
    return table


def arrays(**more):
    return fedsim.Arrays(X, Y, CLIENT, X[:7], Y[:7])._replace(**more)


@pytest.mark.long
def test_labels_of_tokens_against_numpy():
    result = fedsim.run(SCENARIO, data=arrays(), model=BIGRAM)
    table = reference(3)
    np.testing.assert_allclose(result.model()["table"], table, atol=1e-12)
    loss, accuracy = mean_loss(table, X[:7], Y[:7])
    last = result.rounds.iloc[-1]
    np.testing.assert_allclose([last.test_loss, last.test_accuracy], [loss, accuracy], rtol=1e-12)
    of_clients = [mean_loss(table, X[CLIENT == k], Y[CLIENT == k])[0] for k in range(3)]
    np.testing.assert_allclose(result.clients["global_loss"], of_clients, rtol=1e-12)
    assert result.clients["samples"].tolist() == [4, 12, 8]
    assert result.partition["label"].isna().all()


@pytest.mark.long
def test_train_loss_is_over_tokens():
    y = np.full_like(X, -1)
    y[:, 0] = X[:, 0]
    y[:4] = X[:4]
    result = fedsim.run({**SCENARIO, "rounds": 1, "client": {"lr": 1e-12, "batch": 4}},
                        data=fedsim.Arrays(X, y, CLIENT), model=BIGRAM)  # fmt: skip
    assert result.rounds["train_loss"].iloc[-1] == pytest.approx(np.log(V))


@pytest.mark.long
def test_a_loss_of_rows_counts_for_each_token():
    loss = lambda outputs, y: jnp.full(len(y), 2.0, outputs.dtype)
    result = fedsim.run({**SCENARIO, "rounds": 1}, data=arrays(), model=BIGRAM, loss=loss)
    assert result.rounds["test_loss"].iloc[-1] == 2.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (arrays(vocabulary=3), "x: row 0 has token 4 at position 0; tokens are 0 to 2"),
        (arrays(y=np.where(Y < 0, -2, Y)), "has label -2; classes are 0, 1, 2, ..., -1: no label"),
        (arrays(y=np.full_like(Y, -1)), "y: no token has a label; all labels are -1"),
        (arrays(x=X / 2, vocabulary=5), "x: tokens are integers [n, T], found float64 (24, 6)"),
        (arrays(labels=["a", "b"]), "labels: 2 names, but y has a class 4"),
    ],
)
def test_samples_that_are_no_sequences_are_refused(data, message):
    with pytest.raises(fedsim.DataError, match=re.escape(message)):
        fedsim.run(SCENARIO, data=data, model=BIGRAM)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("data.standardize=true", "tokens, which have no mean and no scale"),
        ("data.partition=dirichlet", "every token has a label of its own"),
        ("model=mlp", "mlp takes numbers, and these samples are tokens"),
        ("model={kind: linear, loss: squared}", "squared is for classes and targets that are"),
        ("client.kind=fedlc", "fedlc is for samples with one label each"),
    ],
)
def test_what_is_for_other_samples_is_refused(edit, message):
    own = {} if edit.startswith("model") else {"model": BIGRAM}
    with pytest.raises((fedsim.ScenarioError, fedsim.DataError), match=message):
        fedsim.run(SCENARIO, data=arrays(), edits=[edit], **own)


BYTES = RNG.integers(0, 256, (40, 4, 4, 1), np.uint8)
LABELS = RNG.integers(0, 3, 40)


@pytest.mark.long
def test_bytes_are_their_numbers_times_the_scale():
    scenario = {
        "name": "bytes",
        "rounds": 2,
        "data": {"kind": "supplied", "clients": 4, "test": 0.25},
        "model": "linear",
        "numerics": {"dtype": "float64"},
    }
    stored = fedsim.run(scenario, data=fedsim.Arrays(BYTES, LABELS, scale=1 / 255))
    numbers = fedsim.run(scenario, data=fedsim.Arrays(BYTES * (1 / 255), LABELS))
    for mine, theirs in zip(
        *(jax.tree.leaves(run.model()) for run in (stored, numbers)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(stored.rounds["test_loss"], numbers.rounds["test_loss"], rtol=1e-12)


def test_bytes_stay_bytes_in_the_federation():
    images = fedsim.Arrays(BYTES, LABELS, scale=1 / 255)
    sets, classes = prepare(images, test=0.25, seed=0, dtype=np.dtype("float32"))
    assert sets.train.x.dtype == sets.test.x.dtype == np.uint8 and sets.scale == 1 / 255
    parts = iid()(Pool(sets.train.y, classes), 4, np.random.default_rng(0))
    unscaled = sets._replace(scale=1.0)
    prints = [federate(each, classes, parts).fingerprint() for each in (sets, unscaled)]
    assert prints[0] != prints[1]
    filled, _ = prepare(images, test=0.25, seed=0, dtype=np.dtype("float64"), standardize=True)
    assert filled.scale == 1.0 and abs(filled.train.x.mean()) < 1e-12


def test_bytes_beside_numbers_become_numbers():
    pair = fedsim.Arrays(BYTES, LABELS, None, BYTES / 2, LABELS)
    arrays, _ = validate(pair, np.dtype("float32"))
    assert arrays.x.dtype == arrays.x_test.dtype == np.float32
