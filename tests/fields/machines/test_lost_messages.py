"""Clients that leave a round: a lost message leaves their memory unchanged, as in plain NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_codecs import SIZES, D, problem_arrays, quadratics

from fedsim.fleet.streams import Stream, generator

ROUNDS, SEED, LR, STEPS = [[0, 3, 6], [1, 3, 4, 6], [0, 4, 6], [0, 1, 3], [3, 4, 6]], 2, 0.1, 3
DROPOUT = {"before": 0.1, "during": 0.2, "after": 0.3}


def expected(
    rounds: list[list[int]], lr: float, steps: int, k: int, server_lr: float
) -> tuple[np.ndarray, np.ndarray]:
    """FedAvg on quadratics with top-k under error feedback, in NumPy -> (x, errors of clients)."""
    H, a, x, e = *problem_arrays(), np.full(D, 2.0), np.zeros((len(SIZES), D))
    for ids in rounds:
        total, weight = np.zeros(D), 0
        for i in (i for i in ids if SIZES[i]):
            y = x.copy()
            for _ in range(steps):
                y = y - lr * H[i] @ (y - a[i])
            p = y - x + e[i]
            keep = np.sort(np.argsort(-np.abs(p), kind="stable")[:k])
            sent = np.zeros(D)
            sent[keep] = p[keep]
            e[i] = p - sent
            total, weight = total + SIZES[i] * sent, weight + SIZES[i]
        x = x + server_lr * total / weight
    return x, e


def staying() -> list[list[int]]:
    """The clients that stay in each round, by the first number of each client's stream."""
    stays = lambda r, i: generator(SEED, Stream.DROPOUT, r, i).random() >= sum(DROPOUT.values())
    return [[i for i in ids if stays(r, i)] for r, ids in enumerate(ROUNDS, 1)]


def run(**sections):
    return quadratics(
        rounds=len(ROUNDS),
        seeds=[SEED],
        cohort={"kind": "listed", "rounds": ROUNDS},
        client={"lr": LR, "batch": "full", "steps": STEPS},
        fleet={"dropout": DROPOUT},
        **sections,
    )


def scaffold() -> tuple[np.ndarray, np.ndarray]:
    """Option II, half a server step -> (x, control variates of all clients)."""
    (H, a), x, c = problem_arrays(), np.full(D, 2.0), np.zeros(D)
    c_i = np.zeros((len(SIZES), D))
    for ids in staying():
        deltas, changes = [], np.zeros(D)
        for i in (i for i in ids if SIZES[i]):
            y = x.copy()
            for _ in range(STEPS):
                y = y - LR * (H[i] @ (y - a[i]) - c_i[i] + c)
            new = c_i[i] - c + (x - y) / (STEPS * LR)
            changes, c_i[i] = changes + new - c_i[i], new
            deltas.append(y - x)
        if deltas:
            x, c = (
                x + 0.5 * np.mean(deltas, axis=0),
                c + changes / np.count_nonzero(SIZES),
            )  # N: clients that can take part
    return x, c_i


@pytest.mark.long
def test_control_variates_of_lost_messages_are_unchanged():
    result = run(method="scaffold(lr=0.5)")
    x, c_i = scaffold()
    assert_allclose(result.model(), x, rtol=1e-12)
    assert_allclose(result.state()["client"]["c_i"], c_i, rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_compression_errors_of_lost_messages_are_unchanged():
    result = run(
        wire=[{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 2}}],
        server=["mean", {"kind": "sgd", "lr": 0.5}],
    )
    x, e = expected([ids for ids in staying() if any(SIZES[i] for i in ids)], LR, STEPS, 2, 0.5)
    assert_allclose(result.model(), x, rtol=1e-12)
    assert_allclose(result.state()["client"]["error_feedback"]["error"], e, rtol=1e-9, atol=1e-12)
