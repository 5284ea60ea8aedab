"""Whole runs with codecs are those of plain NumPy.

Some of the clients, others without samples, half a server step; what absent clients remember stays.
"""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_codecs import SIZES, D, quadratics, trained

from fedsim.engine.keys import Phase, round_key
from fedsim.kinds import tag_of
from fedsim.tree.selection import random_indices

ROUNDS = [[0, 3], [1, 3, 6], [4, 6], [0, 1]]


def federated(send) -> np.ndarray:
    """FedAvg on quadratics; `send(round, client, update) -> what arrives` may remember."""
    x = np.full(D, 2.0)
    for number, ids in enumerate(ROUNDS, start=1):
        total, weight = np.zeros(D), 0
        for i in (i for i in ids if SIZES[i]):
            total = total + SIZES[i] * send(number, i, trained(x, i, lr=0.1, steps=3))
            weight += SIZES[i]
        x = x + 0.5 * total / weight
    return x


def key_of(name: str, number: int, client: int):
    """The key of a client's codec in a round of seed 0."""
    key = round_key(jax.random.key(0), number, Phase.WIRE)
    for data in (tag_of(name), 0, client):
        key = jax.random.fold_in(key, data)
    return key


def plainly(compress, known):
    """What is compressed arrives, and nothing is remembered."""
    del known
    return compress


def with_feedback(compress, errors):
    """What is left out is added to the next message."""

    def send(number, i, update):
        whole = update + errors[i]
        arrives = compress(number, i, whole)
        errors[i] = whole - arrives
        return arrives

    return send


def shifting(alpha: float):
    """What is compressed is the difference to a shift, which follows at a pace."""

    def around(compress, shifts):
        def send(number, i, update):
            step = compress(number, i, update - shifts[i])
            arrives = shifts[i] + step
            shifts[i] = shifts[i] + alpha * step
            return arrives

        return send

    return around


def lazily(compress, received):
    """A silent client counts with its last message."""

    def send(number, i, update):
        if compress(number, i, update):
            received[i] = update
        return received[i].copy()

    return send


def kept(update, places):
    return np.where(np.isin(np.arange(D), places), update, 0)


def largest(number, i, update):
    return kept(update, np.argsort(-np.abs(update), kind="stable")[:2])


def beyond(number, i, update):
    return np.where(np.abs(update) >= 0.4, update, 0)


def drawn_by(name: str, scale: float):
    """The draws are fedsim's, by the key of round and client."""

    def compress(number, i, update):
        places = random_indices(jax.random.fold_in(key_of(name, number, i), 0), D, 2)
        return kept(scale * update, np.asarray(places))

    return compress


def speaks(number, i, update):
    return float(jax.random.uniform(key_of("lazy", number, i), (), np.float32)) < 0.5


TOP = {"kind": "top_k", "k": 2}
THRESHOLD = {"kind": "threshold", "value": 0.4}
UNSCALED = {"kind": "rand_k", "k": 2, "scale": False}


feedback = lambda codec: {"kind": "error_feedback", "codec": codec}
CASES = {
    # the link; what a client does; what of it is compressed; the state by that name
    "top_k": (feedback(TOP), with_feedback, largest, "error"),
    "threshold": (feedback(THRESHOLD), with_feedback, beyond, "error"),
    "rand_k": ({"kind": "rand_k", "k": 2}, plainly, drawn_by("rand_k", D / 2), None),
    "rand_k, unscaled": (feedback(UNSCALED), with_feedback, drawn_by("error_feedback", 1), "error"),
    "lazy": ({"kind": "lazy", "probability": 0.5}, lazily, speaks, "received"),
    "diana": ({"kind": "diana", "alpha": 0.4, "codec": TOP}, shifting(0.4), largest, "shift"),
    "ef21": ({"kind": "ef21", "codec": TOP}, shifting(1.0), largest, "shift"),
}
IN_PARTS = [
    name if name == "diana" else pytest.param(name, marks=pytest.mark.long) for name in CASES
]


@pytest.mark.parametrize("name", IN_PARTS)
def test_a_run_is_that_of_plain_numpy(name):
    link, remembering, compress, state = CASES[name]
    known = np.zeros((len(SIZES), D))
    x = federated(remembering(compress, known))
    result = quadratics(
        rounds=len(ROUNDS),
        cohort={"kind": "listed", "rounds": ROUNDS},
        client={"lr": 0.1, "batch": "full", "steps": 3},
        wire=[link],
        server=["mean", {"kind": "sgd", "lr": 0.5}],
    )
    assert_allclose(result.model(), x, rtol=1e-12)
    if state is not None:
        stored = result.state()["client"][link["kind"]][state]
        assert_allclose(stored, known, rtol=1e-9, atol=1e-12)
