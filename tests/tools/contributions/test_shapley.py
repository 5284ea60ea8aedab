"""Shapley values of small games: their definition, their laws, and the estimate by GTG-Shapley."""

import itertools
import math

import numpy as np
import pytest

from fedsim.tools.contributions.shapley import Truncation, coalitions, exact, gtg, remembering

ALWAYS = Truncation(between=0.0, within=0.0, most=60)  # nothing is cut off


def random_game(K, seed=0):
    """The values of all coalitions of K players, in the order of `coalitions`."""
    return np.random.default_rng(seed).normal(size=2**K)


def as_game(values, K):
    """The function that values masks."""

    def game(members):
        return values[members @ (1 << np.arange(K))]

    return game


def by_orders(values, K):
    """The mean over all K! orders of what a player adds where it joins: another definition."""
    total = np.zeros(K)
    for order in itertools.permutations(range(K)):
        members = 0
        for player in order:
            with_it = members | 1 << player
            total[player] += values[with_it] - values[members]
            members = with_it
    return total / math.factorial(K)


@pytest.mark.parametrize("K", [0, 1, 2, 5])
def test_exact_values_are_the_mean_over_all_orders(K):
    values = random_game(K)
    np.testing.assert_allclose(exact(values), by_orders(values, K), atol=1e-12)
    assert abs(exact(values).sum() - (values[-1] - values[0])) < 1e-12


def plain_gtg(values, K, draws, rules):
    """Algorithm 1 of GTG-Shapley, one permutation and one player after another."""
    V = lambda players: values[sum(1 << player for player in players)]
    start, end = V([]), V(range(K))
    if abs(end - start) <= rules.between:
        return [0.0] * K
    records = []
    while True:
        if len(records) >= rules.most:
            break
        if len(records) > rules.least:
            last = range(len(records) - rules.window, len(records))
            running = [np.mean(records[: n + 1], axis=0) for n in last if n >= 0]
            now = running[-1]
            errors = [np.mean(abs(r - now) / (abs(now) + 1e-12)) for r in running]
            if max(errors) <= rules.tolerance:
                break
        for first in range(K):
            others = [player for player in range(K) if player != first]
            order = [first, *draws.permutation(others)]
            marginal = [0.0] * K
            v = start
            for j in range(K):
                if abs(end - v) >= rules.within:
                    after = V(order[: j + 1])
                else:
                    after = v
                marginal[order[j]] = after - v
                v = after
            records.append(marginal)
    return np.mean(records, axis=0)


@pytest.mark.parametrize(
    "rules", [Truncation(tolerance=0.3), Truncation(within=0.8, most=50), ALWAYS]
)
def test_gtg_is_the_papers_algorithm(rules):
    K = 5
    values = random_game(K)
    found = gtg(as_game(values, K), K, np.random.default_rng(3), rules)
    expected = plain_gtg(values, K, np.random.default_rng(3), rules)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


def test_gtg_comes_near_the_exact_values():
    """Within four standard errors, which say how near, and in their order."""
    K = 7
    weights = np.array([0.05, 0.3, 0.1, 0.2, 0.02, 0.15, 0.4])
    values = np.tanh(coalitions(K) @ weights)
    rules = Truncation(between=0.0, within=0.0, tolerance=0.002)
    found = gtg(as_game(values, K), K, np.random.default_rng(0), rules)
    expected = exact(values)
    assert (np.abs(found.values - expected) < 4 * found.errors + 1e-12).all()
    assert found.errors.max() < 0.01
    assert (np.argsort(found.values) == np.argsort(expected)).all()
    # Every permutation sums to the gain where nothing is cut off.
    assert abs(found.values.sum() - (values[-1] - values[0])) < 1e-12


def test_gtg_asks_for_little_where_little_is_to_gain():
    K = 6
    asked = []

    def game(members):
        asked.extend(map(tuple, members.tolist()))
        return 0.001 * members.sum(axis=1)

    found = gtg(remembering(game), K, np.random.default_rng(0), Truncation())
    assert not found.values.any() and len(asked) == 2

    asked.clear()
    gtg(remembering(game), K, np.random.default_rng(0), ALWAYS)
    assert len(asked) == len(set(asked)) <= 2**K
