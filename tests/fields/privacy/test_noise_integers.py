"""Integers of noise have their distribution, and rounding lengthens an update by a bound."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fedsim.fields.privacy.mechanisms.distributed import rounded_within
from fedsim.fields.privacy.mechanisms.integers import alias_table, discrete_gaussian, draw, skellam


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
