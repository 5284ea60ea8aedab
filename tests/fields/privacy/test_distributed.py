"""Noise of clients in shares: the integers that they draw, what a run adds, and its ε."""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import built
from conftest import if_whole
from numpy.testing import assert_allclose
from reference.scenarios import flat
from scipy import special, stats
from unchanged import run_of_same_bytes

import fedsim
from fedsim.codecs.hadamard import padded
from fedsim.errors import ScenarioError
from fedsim.fields.privacy.counting.accountant import spending
from fedsim.fields.privacy.counting.distributed import (
    discrete_gaussians,
    lattice_of,
    sum_divergence,
)
from fedsim.fields.privacy.counting.distributed import skellam as skellam_divergences
from fedsim.fields.privacy.counting.records import Mechanism
from fedsim.fields.privacy.counting.renyi import of_subset
from fedsim.fields.privacy.keys import Privacy
from fedsim.fields.privacy.mechanisms.distributed import rounded_within
from fedsim.fields.privacy.mechanisms.integers import alias_table, discrete_gaussian, draw, skellam
from fedsim.fleet.sampling import Sampling

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


# Integers


def skellam_weights(std: float, k: np.ndarray) -> np.ndarray:
    """Of differences of two Poisson numbers with half of the variance each, by Bessel functions."""
    return special.ive(np.abs(k), std**2)


def gaussian_weights(std: float, k: np.ndarray) -> np.ndarray:
    many = np.arange(-2000, 2001)
    return np.exp(-(k**2) / (2 * std**2)) / np.exp(-(many**2) / (2 * std**2)).sum()


WEIGHTS = {skellam: skellam_weights, discrete_gaussian: gaussian_weights}


@pytest.mark.parametrize("std", [0.5, 3.0, 40.0])
def test_the_table_of_a_distribution_is_that_distribution_up_to_its_32_bits(std):
    """Column by column: `keep` for its own number, the rest for its alias."""
    k = np.arange(-int(6 * std) - 4, int(6 * std) + 5)
    for distribution, weights in WEIGHTS.items():
        table = alias_table(distribution, std)
        n = len(table.keep)
        made = table.keep / 2.0**32
        np.add.at(made, table.alias + n // 2, 1 - table.keep / 2.0**32)
        distance = np.abs(made[k + n // 2] / n - weights(std, k)).sum() / 2
        assert distance < 2**-31


def test_draws_have_the_probabilities_of_their_table():
    """χ² over all integers that are expected at least ten times."""
    std, size = 2.5, 400_000
    table = alias_table(skellam, std)
    drawn = np.asarray(jax.jit(lambda key: draw(table, key, size))(jax.random.key(3)))
    k = np.arange(-30, 31)
    expected = size * skellam_weights(std, k)
    counts = np.array([(drawn == i).sum() for i in k])
    often = expected >= 10
    observed = [*counts[often], size - counts[often].sum()]
    p = stats.chisquare(observed, [*expected[often], size - expected[often].sum()]).pvalue
    assert p > 1e-3 and abs(drawn).max() > 4 * std


@pytest.mark.long
def test_rounding_lengthens_by_a_bounded_amount_and_is_right_on_average():
    """√(c² + d/4 + c + √d/2), which a first rounding to integers often exceeds here."""
    n, c = 16, 3.0
    t = np.full(n, c / math.sqrt(n))  # 0.75 each: all 16 up would be 16, and 13.0 is allowed
    slack = n / 4 + c + math.sqrt(n) / 2
    keys = jax.random.split(jax.random.key(0), 4000)
    whole = jax.jit(jax.vmap(lambda key: rounded_within(jnp.asarray(t), slack, key)))(keys)
    squares = np.asarray((whole**2).sum(1))
    assert squares.max() <= c * c + slack and squares.max() > 15
    assert set(np.unique(whole)) == {0, 1}
    assert abs(np.mean(whole) - 0.75) < 0.01


# ε


def summed(p: np.ndarray, shares: int) -> np.ndarray:
    total = p
    for _ in range(shares - 1):
        total = np.convolve(total, p)
    return total


def exact_divergence(order: int, p: np.ndarray, moved: int) -> float:
    """The larger of D_α(P‖Q) and D_α(Q‖P) for Q = P moved by an integer, where both are there."""
    top, bottom = p[moved:], p[:-moved]
    positive = (top > 1e-250) & (bottom > 1e-250)
    logs = [np.log(a[positive]) for a in (top, bottom)]
    ways = [order * a - (order - 1) * b for a, b in itertools.permutations(logs)]
    return max(np.logaddexp.reduce(way) / (order - 1) for way in ways)


@pytest.mark.parametrize(("std", "shares", "moved"), [(0.6, 4, 1), (1.0, 3, 2), (4.0, 5, 3)])
def test_divergences_of_sums_are_never_below_the_exact_ones(std, shares, moved):
    """One coordinate: shares are convolved, and the sum is compared with itself, moved."""
    k = np.arange(-400, 401)
    orders = np.array([2, 3, 5, 8])
    of_sum = std * math.sqrt(shares)
    relative, tau = moved / of_sum, sum_divergence(std, shares)
    bounds = [  # and the std from which they are close
        (skellam_weights, skellam_divergences(orders, moved, moved, of_sum), 4),
        (gaussian_weights, discrete_gaussians(orders, relative, relative, tau, 1), 1),
    ]
    for weights, bound, close_from in bounds:
        exact = [exact_divergence(a, summed(weights(std, k), shares), moved) for a in orders]
        assert (bound >= np.array(exact) - 1e-9).all()
        if std >= close_from:
            assert_allclose(bound, exact, rtol=0.05)


def section_of(kind: Any, bits=16, dimension=1024, **changes) -> Privacy:
    mechanism = Mechanism(kind, bits=bits, dimension=dimension, **changes)
    counted = {"mechanism": mechanism, "accountant": "rdp", "orders": list(range(2, 33))}
    return Privacy.model_construct(clip=1.0, delta=1e-5, noise_multiplier=4.0, **counted)


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_is_above_that_of_gaussian_noise_and_comes_near_it(kind):
    """With the same std of the noise: rounding and integers only cost, and less with more bits."""
    rested = Sampling("separated", size=50, gap=3, most=2)
    for sampling in (Sampling("all"), rested, Sampling("uniform", size=50)):
        sections = [section_of("gaussian"), *(section_of(kind, bits) for bits in (11, 20))]
        gaussian, *by_bits = (
            spending(section, sampling, clients=200, rounds=12)(12) for section in sections
        )
        assert sorted(by_bits, reverse=True) == by_bits
        assert gaussian <= by_bits[-1]
        if sampling.kind != "uniform":  # for which Gaussian noise has a bound of its own
            assert by_bits[-1] <= 1.02 * gaussian


@pytest.mark.parametrize(("kind", "weights"), list(zip(KINDS, WEIGHTS.values(), strict=True)))
def test_delta_at_this_epsilon_is_never_below_the_exact_one(kind, weights):
    """One coordinate, one round, the longest update: δ is that of the convolved shares."""
    section = section_of(kind, dimension=1, granularity=0.25, shares=5)
    epsilon = spending(section, Sampling("all"), clients=5, rounds=1)(1)
    lattice = lattice_of(section.mechanism, 4.0)
    k = np.arange(-600, 601)
    p = summed(weights(lattice.std, k), 5)
    moved = math.floor(lattice.norm)
    top, bottom = p[moved:], p[:-moved]
    delta = np.maximum(top - math.exp(epsilon) * bottom, 0).sum() + p[:moved].sum()
    assert 1e-8 < delta <= 1e-5


@pytest.mark.long
def test_a_random_subset_of_any_release_spends_at_least_what_one_of_a_gaussian_does():
    """dp-accounting has a better bound for Gaussians, and the same where noise is small."""
    import dp_accounting as dp

    orders = np.arange(2, 65)
    for z, size, same in ((1.0, 20, True), (2.0, 10, False), (4.0, 100, False)):
        event = dp.SampledWithoutReplacementDpEvent(1000, size, dp.GaussianDpEvent(z))
        relation = dp.NeighboringRelation.REPLACE_ONE
        accountant = dp.rdp.RdpAccountant(orders.tolist(), relation).compose(event)
        bounds = np.array([of_subset(a, orders / (2 * z * z), size / 1000) for a in range(2, 65)])
        assert (bounds >= np.array(accountant.rdp) * (1 - 1e-9)).all()
        if same:
            assert_allclose(bounds, accountant.rdp)


# Runs


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
