"""The C-index is that of lifelines 0.30.3, and the weighted share of all pairs."""

import numpy as np
import pytest
from test_cox import drawn

import fedsim


@pytest.mark.parametrize(
    ("why", "data", "expected"),
    [
        ("ties of times and outputs", (0, 60, 12, 0.6), 0.5319767441860465),
        ("few ties of times", (1, 60, 1000, 0.6), 0.5555555555555556),
        ("many ties of times", (2, 60, 3, 0.9), 0.5793718166383701),
        ("nothing is censored", (3, 40, 12, 1.0), 0.5),
        ("nearly all are censored", (4, 40, 12, 0.05), 0.078125),
    ],
)
def test_the_c_index_is_that_of_lifelines(why, data, expected):
    y, outputs = drawn(*data)
    assert fedsim.measure("c_index", y, outputs) == pytest.approx(expected, abs=1e-12), why


@pytest.mark.parametrize(
    ("why", "times", "outputs"),
    [("few ties", 10**6, 10**6), ("ties of times", 4, 10**6), ("ties of outputs", 50, 3)],
)
def test_the_c_index_is_the_weighted_share_of_all_pairs(why, times, outputs):
    rng = np.random.default_rng(3)
    y = np.stack([rng.integers(1, times, 200), rng.integers(0, 2, 200)], axis=1)
    o = rng.integers(0, outputs, 200)
    w = rng.random(200)
    time, event = y.T
    is_later = (time[:, None] < time) | (time[:, None] == time) & (event == 0)
    pairs = (event == 1)[:, None] * is_later * w[:, None] * w
    agree = (o[:, None] > o) + 0.5 * (o[:, None] == o)
    expected = (pairs * agree).sum() / pairs.sum()
    assert fedsim.measure("c_index", y, o, w) == pytest.approx(expected, abs=1e-12), why


def test_a_c_index_needs_two_samples_that_can_be_compared():
    assert np.isnan(fedsim.measure("c_index", [[1, 0], [2, 1]], [0.0, 1.0]))
    with pytest.raises(fedsim.ScenarioError, match=r"write times and events \[n, 2\]"):
        fedsim.measure("c_index", [0, 1], [0.0, 1.0])
