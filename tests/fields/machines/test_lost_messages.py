"""Clients that leave a round: a lost message leaves their memory unchanged, as in plain NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_codecs import SIZES, D, problem_arrays, quadratics

from fedsim.fleet.streams import Stream, generator

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quickly_compiled")]

ROUNDS, SEED, LR, STEPS = [[0, 3, 6], [1, 3, 4, 6], [0, 4, 6], [0, 1, 3], [3, 4, 6]], 2, 0.1, 3
DROPOUT = {"before": 0.1, "during": 0.2, "after": 0.3}


def staying() -> list[list[int]]:
    """The clients with samples that stay in each round, by the first number of their streams."""
    stays = lambda r, i: generator(SEED, Stream.DROPOUT, r, i).random() >= sum(DROPOUT.values())
    return [[i for i in ids if SIZES[i] and stays(r, i)] for r, ids in enumerate(ROUNDS, 1)]


def run(**sections):
    return quadratics(
        rounds=len(ROUNDS),
        seeds=[SEED],
        cohort={"kind": "listed", "rounds": ROUNDS},
        client={"lr": LR, "batch": "full", "steps": STEPS},
        fleet={"dropout": DROPOUT},
        **sections,
    )


def test_control_variates_of_lost_messages_are_unchanged():
    """SCAFFOLD's option II, with half a server step."""
    (H, a), x, c = problem_arrays(), np.full(D, 2.0), np.zeros(D)
    c_i = np.zeros((len(SIZES), D))
    for ids in filter(None, staying()):
        deltas, changes = [], np.zeros(D)
        for i in ids:
            y = x.copy()
            for _ in range(STEPS):
                y = y - LR * (H[i] @ (y - a[i]) - c_i[i] + c)
            new = c_i[i] - c + (x - y) / (STEPS * LR)
            changes, c_i[i] = changes + new - c_i[i], new
            deltas.append(y - x)
        x = x + 0.5 * np.mean(deltas, axis=0)
        c = c + changes / np.count_nonzero(SIZES)  # N: clients that can take part

    result = run(method="scaffold(lr=0.5)")
    assert_allclose(result.model(), x, rtol=1e-12)
    assert_allclose(result.state()["client"]["c_i"], c_i, rtol=1e-9, atol=1e-12)


def test_compression_errors_of_lost_messages_are_unchanged():
    """FedAvg with two of four numbers, and half a server step."""
    (H, a), x, errors = problem_arrays(), np.full(D, 2.0), np.zeros((len(SIZES), D))
    for ids in filter(None, staying()):
        total = np.zeros(D)
        for i in ids:
            y = x.copy()
            for _ in range(STEPS):
                y = y - LR * H[i] @ (y - a[i])
            whole = y - x + errors[i]
            largest = np.argsort(-np.abs(whole), kind="stable")[:2]
            sent = np.zeros(D)
            sent[largest] = whole[largest]
            errors[i] = whole - sent
            total = total + SIZES[i] * sent
        x = x + 0.5 * total / sum(SIZES[i] for i in ids)

    codec = {"kind": "top_k", "k": 2}
    result = run(
        wire=[{"kind": "error_feedback", "codec": codec}],
        server=["mean", {"kind": "sgd", "lr": 0.5}],
    )
    assert_allclose(result.model(), x, rtol=1e-12)
    memory = result.state()["client"]["error_feedback"]["error"]
    assert_allclose(memory, errors, rtol=1e-9, atol=1e-12)
