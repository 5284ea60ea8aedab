"""Runs of clients that are slow, or that leave: in plain NumPy; and who is a straggler."""

import math

import numpy as np
import pytest
from conftest import sampled
from numpy.testing import assert_allclose, assert_array_equal
from test_codecs import SIZES, D, problem_arrays, quadratics, trained

from fedsim.fields.machines.stragglers import Stragglers, slowed
from fedsim.fleet.streams import Stream, generator


def near(share: float, expected: float, draws: int) -> bool:
    """A share of Bernoulli draws, at 5 standard deviations."""
    return abs(share - expected) <= 5 * math.sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.9, 1.0])
def test_the_given_share_of_clients_does_a_uniform_part_of_the_work(share):
    """round(m (1 − share)) clients do all of the work.

    The others do 1 … E − 1 of E = 5 parts of three steps, each number equally often.
    """
    m, rounds, ids = 7, 800, np.array([2, 3, 5, 8, 13, 21, 34])
    all_ = [slowed(Stragglers(share), 4, r, ids, np.full(m, 15), 5) for r in range(1, rounds + 1)]
    slow, able = (np.array(column) for column in zip(*all_, strict=True))
    few = m - round(m * (1 - share))
    assert (slow.sum(1) == few).all() and (able[~slow] == 15).all()
    counts = np.bincount(able[slow] // 3, minlength=5)
    assert not few or ((able[slow] % 3 == 0).all() and counts[0] == 0 and len(counts) == 5)
    assert all(near(count / counts.sum(), 0.25, counts.sum()) for count in counts[1:] if few)
    assert all(near(often, few / m, rounds) for often in slow.mean(0))


def test_draws_depend_on_seed_round_and_client_alone():
    """A straggler does the same whoever else takes part.

    Clients are stragglers by the rank of a number of their own.
    """
    ids, planned = np.arange(20), np.full(20, 12)
    _, of_all = slowed(Stragglers(1.0), 3, 7, ids, planned, planned)
    slow, able = slowed(Stragglers(0.5), 3, 7, ids[::2], planned[::2], planned[::2])
    u = np.array([generator(3, Stream.STRAGGLERS, 7, k).random(2) for k in ids])
    assert_array_equal(of_all, 1 + np.floor(11 * u[:, 1]))
    assert_array_equal(able, np.where(slow, of_all[::2], 12))
    assert set(ids[::2][slow]) == set(sorted(ids[::2], key=lambda k: u[k, 0])[5:])


SPEED = {"kind": "lognormal", "sigma": 1.0}
PLANNED = 4
SLOW = {  # what slow clients do -> the section of the fleet
    "a straggler's part": {"stragglers": {"share": 0.6, "work": "partial"}},
    "steps until the deadline": {"speed": SPEED, "deadline": 3.0, "partial_work": True},
    "nothing in time": {"stragglers": {"share": 0.6, "work": "drop"}},
}


def steps_in_time(name, r, ids):
    """The local steps of clients that arrive in a round."""
    if "deadline" in SLOW[name]:
        step = np.exp(generator(3, Stream.SPEED).standard_normal(len(SIZES)))[ids]
        return np.minimum(np.floor(3.0 / step), PLANNED).astype(int)
    slow, able = slowed(Stragglers(0.6), 3, r, np.array(ids), np.full(3, PLANNED), PLANNED)
    assert slow.sum() == 2
    return able if name == "a straggler's part" else able * ~slow


@pytest.mark.parametrize("name", sampled(SLOW, 3))
def test_a_run_with_slow_clients_matches_plain_numpy(name, recwarn):
    """Partial participation, two clients without samples, half a server step.

    All clients of a round may be slow.
    """
    rounds = [[0, 3, 6], [1, 3, 4], [2, 4, 6], [0, 1, 5]]
    result = quadratics(
        rounds=len(rounds),
        seeds=[3],
        cohort={"kind": "listed", "rounds": rounds},
        client={"lr": 0.1, "batch": "full", "epochs": PLANNED},
        server=["mean", {"kind": "sgd", "lr": 0.5}],
        fleet=SLOW[name],
    )
    x, done = np.full(D, 2.0), []
    for r, ids in enumerate(rounds, 1):
        total, weight = np.zeros(D), 0
        for i, steps in zip(ids, steps_in_time(name, r, ids), strict=True):
            done.append(steps)
            if SIZES[i] and steps:
                update = trained(x, i, lr=0.1, steps=steps)
                total, weight = total + SIZES[i] * update, weight + SIZES[i]
        x = x + 0.5 * total / max(weight, 1)
    said = any("stragglers.share: 0.6 of 3 clients is 2" in str(one.message) for one in recwarn)
    assert said == ("stragglers" in SLOW[name]) and len(set(done)) > 1
    assert_allclose(result.model(), x, rtol=1e-12)
    if name != "steps until the deadline":
        assert result.rounds["virtual_seconds"].iloc[-1] == PLANNED * len(rounds)
    if name == "nothing in time":
        assert result.rounds["clients_late"].sum() == done.count(0)


# ------------------------------------------------------------------------- messages that are lost

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


@pytest.mark.long
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


@pytest.mark.long
def test_compression_errors_of_lost_messages_are_unchanged():
    """FedAvg with two of four numbers, and half a server step."""
    x, errors = np.full(D, 2.0), np.zeros((len(SIZES), D))
    for ids in filter(None, staying()):
        total = np.zeros(D)
        for i in ids:
            whole = trained(x, i, LR, STEPS) + errors[i]
            largest = np.argsort(-np.abs(whole), kind="stable")[:2]
            sent = np.zeros(D)
            sent[largest] = whole[largest]
            errors[i] = whole - sent
            total = total + SIZES[i] * sent
        x = x + 0.5 * total / sum(SIZES[i] for i in ids)

    wire = [{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 2}}]
    result = run(wire=wire, server=["mean", {"kind": "sgd", "lr": 0.5}])
    assert_allclose(result.model(), x, rtol=1e-12)
    memory = result.state()["client"]["error_feedback"]["error"]
    assert_allclose(memory, errors, rtol=1e-9, atol=1e-12)
