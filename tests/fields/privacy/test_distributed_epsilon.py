"""ε of noise in shares is never below the exact one, and comes near that of Gaussian noise."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_distributed import KINDS
from test_noise_integers import WEIGHTS, gaussian_weights, skellam_weights

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
from fedsim.fleet.sampling import Sampling


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
