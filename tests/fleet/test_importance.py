"""Importance sampling: its probabilities, draws and factors match the paper."""

import itertools

import numpy as np
import pytest
from building import built
from numpy.testing import assert_allclose
from test_selection import BLOBS, ids_of, made, population, rng

from fedsim.errors import ScenarioError
from fedsim.fleet.cohorts.importance import inclusion, scores, systematic

nan, inf = np.nan, np.inf


def test_importance_probabilities_match_the_paper():
    """Equation 7, by trying every number of certain clients.

    The largest scores are certain, and the probabilities sum to the size.
    """
    for seed, size in itertools.product(range(5), (1, 3, 6, 7, 9)):
        score = rng(seed).pareto(0.7, 7) + 1e-3
        got, falling = inclusion(score, size), np.sort(score)
        for length in range(7, 0, -1):  # l: clients that are not certain
            scale = (size + length - 7) / falling[:length].sum()
            if scale * falling[length - 1] <= 1:
                break
        want = np.ones(7) if size >= 7 else np.minimum(1, scale * score)
        assert_allclose(got, want, rtol=1e-12)
        assert got.sum() == pytest.approx(min(size, 7))
    uniform = scores(np.array([1.0, 9.0, 3.0]), np.ones(3), 1.0)  # the floor is all
    assert_allclose(inclusion(uniform, 2), 2 / 3)


def test_unknown_scores_are_average_and_infinite_or_negative_ones_the_floor():
    samples = np.array([1, 3, 2, 1, 4])
    got = scores(np.array([2.0, 4.0, nan, inf, -1.0]), samples, 0.2)
    v = np.array([2.0, 12.0, 2 * (2 * 1 + 4 * 3) / 8, 0, 0])
    assert_allclose(got, 0.8 * v / v.sum() + 0.2 / 5)
    assert_allclose(scores(np.full(5, nan), samples, 0.2), 0.8 * samples / 11 + 0.04)
    assert_allclose(scores(np.array([inf, 0.0]), np.ones(2), 0.5), 0.5)
    assert_allclose(scores(np.array([1e308, 1e308, nan]), np.array([9, 9, 9]), 0.1), 1 / 3)


def test_a_systematic_draw_has_its_size_and_its_probabilities():
    chances = np.array([1.0, 0.7, 0.25, 0.05, 0.6, 0.4])
    drawn = [systematic(chances, rng(seed)) for seed in range(4000)]
    assert all(len(set(each.tolist())) == 3 for each in drawn)
    assert_allclose(np.bincount(np.concatenate(drawn)) / 4000, chances, atol=0.03)


def test_factors_change_no_draw_and_need_a_rule_that_is_a_sum():
    weighed, plain = (
        made("importance", size=3, unbiased=unbiased).draw(population(), 1, rng())
        for unbiased in (True, False)
    )
    assert ids_of(plain) == ids_of(weighed)
    why = "importance gives clients factors, and median is no sum in which"
    cohort = {"kind": "importance", "size": 3}
    with pytest.raises(ScenarioError, match=why):
        built({"name": "s", "data": BLOBS, "cohort": cohort, "server": ["median"]})
