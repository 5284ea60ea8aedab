"""Runs whose clients add noise in shares: the noise, the ε, and what is refused."""

import math

import numpy as np
import pytest
from building import built
from conftest import if_whole
from numpy.testing import assert_allclose
from reference.scenarios import flat
from scipy import stats
from unchanged import run_of_same_bytes

import fedsim
from fedsim.codecs.hadamard import padded
from fedsim.errors import ScenarioError

KINDS = ["distributed_skellam", "distributed_discrete_gaussian"]
MECHANISM = {"kind": "distributed_skellam", "bits": 18}
SCENARIO = {
    "name": "distributed",
    "rounds": 3,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 20},
    "cohort": {"kind": "uniform", "size": 8},
    "privacy": {
        "mechanism": MECHANISM,
        "clip": 0.2,
        "noise_multiplier": 1.5,
        "delta": 1e-5,
        "accountant": "rdp",
    },
}


def privacy(**changes) -> dict:
    return {**SCENARIO["privacy"], **changes}


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


@pytest.mark.long
def test_a_run_has_the_noise_of_z_and_spends_what_the_accountant_says():
    """Clients with lr 0 send noise alone, of which six messages have all that z asks for.

    A third of the eight leave; a round of fewer than six is skipped, and in the others, of m_r
    messages, every coordinate moves by N(0, m_r/6 (zC/8)²).
    """
    mechanism = {**MECHANISM, "shares": 6}
    sections = {"client": {"lr": 0.0}, "model": {"kind": "mlp", "hidden": [64]}, "rounds": 6}
    section = privacy(mechanism=mechanism)
    result = run(privacy=section, fleet={"dropout": 0.3}, **sections)
    rounds = result.rounds.iloc[1:]
    reported = rounds["clients_reported"].to_numpy()
    enough = reported >= 6
    assert 0 < enough.sum() < 6 and (rounds["skipped"] == ~enough).all()

    moved = flat(result.model()) - flat(result.experiment.shared[0]["params"])
    std = math.sqrt(reported[enough].sum() / 6) * 1.5 * 0.2 / 8
    assert stats.kstest(moved / std, "norm").pvalue > 1e-3
    assert_allclose(moved.std(), std, rtol=0.1)

    section["mechanism"] = {**mechanism, "dimension": padded(len(moved))}
    wanted = fedsim.epsilon(section, SCENARIO["cohort"], clients=20, rounds=range(1, 7))
    assert rounds["epsilon"].tolist() == wanted
    counted = rounds[enough]
    assert (counted[["distributed_skellam/wrapped", "clip/nonfinite"]] == 0).all(axis=None)
    assert_allclose(counted["privacy/clip"], 0.2)
    assert rounds["bytes_up"].iloc[0] == reported[0] * padded(len(moved)) * 18 // 8


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_it_is_the_mean_of_clipped_updates_up_to_rounding(kind):
    """In the norm, by the slack of rounding for each message; here of 2²⁴ integers."""
    mechanism = {"kind": kind, "bits": 24}
    quiet = run(rounds=1, privacy=privacy(mechanism=mechanism, noise_multiplier=0.0))
    plain = run(rounds=1, privacy=privacy(mechanism="gaussian", noise_multiplier=0.0))
    assert_allclose(flat(quiet.model()), flat(plain.model()), atol=1e-5)
    assert quiet.rounds["epsilon"].tolist() == [0, math.inf]


@pytest.mark.optimised
@if_whole
@pytest.mark.long
def test_kills_and_blocks_change_no_byte(tmp_path):
    run_of_same_bytes(SCENARIO, tmp_path, cut=1)


@if_whole
@pytest.mark.long
def test_a_client_that_is_not_finite_sends_its_noise():
    result = run(rounds=1, cohort="all", wire=["nonfinite"], fleet={"malicious": [0]})
    assert result.rounds["clip/nonfinite"].tolist()[1:] == [1]
    assert result.rounds["n_nonfinite"].tolist()[1:] == [0]
    assert np.isfinite(flat(result.model())).all()


@pytest.mark.long
def test_a_noise_multiplier_is_solved_for_an_epsilon():
    section = privacy(epsilon=6.0, noise_multiplier=None)
    resolved = built({**SCENARIO, "privacy": section}).scenario.resolved()
    solved = {**resolved["privacy"], "epsilon": None}
    spent = fedsim.epsilon(solved, resolved["cohort"], clients=20, rounds=3)
    assert 5.99 < spent <= 6.0 and solved["mechanism"]["shares"] == 8
    assert built(resolved).scenario.resolved() == resolved


REFUSED = {
    "by pld": (
        {"privacy": privacy(accountant="pld")},
        "privacy.accountant: pld knows no sums of the noise distributed_skellam; write rdp",
    ),
    "samples by chance": (
        {"cohort": {"kind": "poisson", "rate": 0.3}},
        "cohort: poisson draws fewer clients at times, and so fewer shares of the noise; use",
    ),
    "a clip that adapts": (
        {"privacy": privacy(clip={"kind": "adaptive", "count_std": 1.0})},
        "privacy.clip: an adaptive clip needs a count with noise of its own",
    ),
    "more shares than clients": (
        {"privacy": privacy(mechanism={**MECHANISM, "shares": 9})},
        "privacy.mechanism.shares: is 9, and a round has 8 clients; write at most 8",
    ),
    "few bits": (
        {"privacy": privacy(mechanism={**MECHANISM, "bits": 3})},
        "privacy.mechanism.bits: 3 bits are too few for the rounding of 8 messages; write more",
    ),
    "fine integers": (
        {"privacy": privacy(mechanism={**MECHANISM, "granularity": 1e-6})},
        "privacy.mechanism.granularity: a client's noise has the std",
    ),
    "coarse integers": (
        {"privacy": privacy(mechanism={"kind": KINDS[1], "granularity": 4.0})},
        "privacy.mechanism: a client's noise has the std 0.133 in integers, and its sums are known "
        "from 0.5; write more bits or a smaller granularity, or use distributed_skellam",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_epsilon_does_not_cover_is_refused(name):
    changes, line = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(**changes)
    assert line in str(error.value)


def test_a_dimension_is_needed_without_a_model():
    with pytest.raises(ScenarioError) as error:
        fedsim.epsilon(privacy(), "all", clients=10, rounds=1)
    assert "privacy.mechanism.dimension: is needed for distributed_skellam" in str(error.value)
