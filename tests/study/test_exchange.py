"""The exchange test is right where the worst attacks are chosen by the same scores."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import stats

from fedsim.study.exchange import beyond, exchanged, worst_apart


def test_the_exchange_test_finds_the_worst_attacks_again():
    """Against loops over the definition; under one attack, it is SciPy's paired test."""
    rng = np.random.default_rng(3)
    one, other = rng.normal(0.3, 1, (2, 5, 3))
    gap = lambda a, b: abs(a.mean(0).min() - b.mean(0).min())
    observed = gap(one, other)
    hits = 0
    for signs in product((False, True), repeat=5):
        swapped = np.array(signs)[:, None]
        apart = gap(np.where(swapped, other, one), np.where(swapped, one, other))
        hits += apart >= observed - 1e-12
    assert exchanged(one, other) == exchanged(other, one) == hits / 2**5

    one, other = rng.normal(0.3, 1, (2, 7, 1))
    d = (one - other)[:, 0]
    flipped = partial(stats.permutation_test, (d,), np.mean, permutation_type="samples")
    assert exchanged(one, other) == flipped().pvalue
    assert beyond(one, other) == flipped(alternative="greater").pvalue


@pytest.mark.long
@pytest.mark.parametrize("fares", [[0] * 5, [0, *[0.4] * 4]], ids=["alike", "unlike"])
def test_choosing_the_worst_attack_keeps_the_level_of_the_test(fares):
    """The worst attacks of both are equally bad, as are all attacks on the second."""
    rng = np.random.default_rng(5)
    p = [
        worst_apart(rng.normal(fares, 0.01, (8, 5)), rng.normal(0, 0.01, (8, 5)))
        for _ in range(300)
    ]
    assert np.mean(np.array(p) < 0.05) <= 0.06
