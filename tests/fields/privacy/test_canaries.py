"""Canaries are drawn by fair coins, move the sum by the bound, and guesses of them bound ε."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from numpy.testing import assert_allclose, assert_array_equal

from fedsim.fields.privacy.counting.auditing import audited_epsilon
from fedsim.fields.privacy.field import draw_canaries
from fedsim.fields.privacy.mechanisms import gaussian
from fedsim.fields.privacy.planting import canary_direction
from fedsim.fields.privacy.private_mean import Bound, private_mean

pytest.importorskip("jax_privacy")


def test_a_guess_that_is_always_right_shows_what_so_many_coins_can():
    """Of n coins, all are guessed right with probability σ(ε)ⁿ, which at the bound is 5 % / 3.

    There are three thresholds to choose from: to guess all, those that are in, and nobody.
    """
    takes_part = np.arange(80) % 2 == 0
    shown = audited_epsilon(np.where(takes_part, 1.0, 0.0), takes_part, 1e-12, confidence=0.95)
    p = (0.05 / 3) ** (1 / 40)
    assert shown == pytest.approx(np.log(p / (1 - p)), abs=1e-3)


def test_coins_that_all_fall_alike_and_scores_that_are_no_numbers_show_nothing():
    shown = lambda scores, coins: audited_epsilon(scores, coins, 1e-5, confidence=0.95)
    assert shown(np.arange(9.0), np.ones(9, bool)) == shown(np.arange(9.0), np.zeros(9, bool)) == 0
    assert shown(np.array([1.0, np.nan, 0.0, 0.0]), np.arange(4) < 2) is None


def test_coins_are_fair_and_the_same_for_a_seed():
    eligible = np.arange(5, 105)
    drawn = [draw_canaries(40, eligible, N=110, seed=seed) for seed in range(200)]
    for within, without in drawn:
        ids = np.flatnonzero(within | without)
        assert len(ids) == within.sum() + without.sum() == 40
        assert np.isin(ids, eligible).all()
    heads = np.array([within.sum() for within, _ in drawn])
    assert_allclose(heads.mean(), 20, atol=4 * np.sqrt(10 / 200))
    assert_allclose(heads.var(), 10, rtol=0.4)  # as of 40 coins, and not of half of the canaries
    assert_array_equal(draw_canaries(40, eligible, N=110, seed=7), drawn[7])


def test_a_canary_moves_the_sum_by_the_bound_in_its_own_direction():
    """Clients 4, 5 and 6 under C = 0.5, without noise, of four expected ones; 6 may be a canary."""
    rule = private_mean(Bound(0.5), 0.0, gaussian(), audited=True)

    @jax.jit
    def played(is_canary):
        updates = cohort_of(np.float32([[0.1, 0, 0], [3.0, 4, 0], [0, 0.2, 0]]))
        known = {"ids": jnp.arange(4, 7), "expected": jnp.float32(4), "state": ()}
        context = context_of(3, marked=jnp.stack([False, False, is_canary]), **known)
        aggregate, _, _ = rule.apply(updates, rule.init(updates.delta[0], None), context)
        return aggregate, canary_direction(jnp.zeros(3), jnp.int32(6))

    for is_canary in (True, False):
        aggregate, direction = map(np.asarray, played(is_canary))
        assert_allclose(np.linalg.norm(direction), 1, rtol=1e-6)
        of_last = 0.5 * direction if is_canary else [0, 0.2, 0]
        wanted = (np.array([0.1, 0, 0]) + [0.3, 0.4, 0] + of_last) / 4
        assert_allclose(aggregate, wanted, rtol=1e-5, atol=1e-7)
