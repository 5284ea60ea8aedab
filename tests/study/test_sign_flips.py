"""The exact sign-flip test in exact arithmetic: ties count, rounding does not, p is never 0."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from fedsim.study.statistics import sign_flip, smallest_p


def exactly(d):
    """P(|Σ ±d| ≥ |Σ d|) over all signs, without rounding."""
    terms = [Fraction(float(x)) for x in d]
    sums = [
        abs(sum(s * x for s, x in zip(signs, terms, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(d))
    ]
    return sum(total >= abs(sum(terms)) for total in sums) / len(sums)


RNG = np.random.default_rng(11)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_whole_numbers_with_many_ties_have_the_exact_p(n):
    """Their floats are exact, and so is every sum: only the definition is tested."""
    for _ in range(20):
        d = RNG.integers(-4, 5, n).astype(float)
        assert sign_flip(d) == exactly(d), d


@pytest.mark.parametrize("samples", [360, 10_000])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_rounded_differences_of_accuracies_have_the_exact_p(n, samples):
    """Signs that give the same sum count as equal, whatever its last bits."""
    for _ in range(30):
        hits = RNG.integers(samples * 9 // 10, samples * 9 // 10 + 6, (2, n))
        a, b = hits / samples
        assert sign_flip(a - b) == exactly(hits[0] - hits[1]), hits


@pytest.mark.parametrize(("samples", "a", "b"), [
    (360, [322, 321, 321, 324], [320, 320, 323, 325]),
    (10_000, [322, 323, 320, 325], [321, 324, 324, 321]),
    (360, [321, 322, 324, 321, 323], [325, 325, 320, 320, 321]),
    (1000, [871, 68, 24, 407], [874, 71, 21, 404]),
])  # fmt: skip
def test_differences_that_cancel_have_a_p_of_1(samples, a, b):
    """Their sum is 0, or almost 0 in floats: other signs with sums as near to 0 must count."""
    d = np.array(a) / samples - np.array(b) / samples
    assert sum(a) == sum(b) and abs(d.sum()) < 1e-15
    assert sign_flip(d) == 1.0


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_p_is_never_below_the_smallest_possible(scale):
    """The observed signs are among all signs, even if their sum is rounded down."""
    for n in range(1, 11):
        for _ in range(5):
            d = RNG.uniform(0.01, 1.0, n) * scale
            assert sign_flip(d) == smallest_p(n) if n > 1 else sign_flip(d) == 1.0
