"""Sources and partitions: nothing lost, nothing twice, the same again, never a hang."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data import Arrays, DataError, PartitionError, digits, dirichlet, iid, natural, prepare
from fedsim.data.federation import apportion, stratified


def test_digits_are_the_real_ones():
    x, y, *_ = digits()
    assert x.shape == (1797, 8, 8, 1) and x.min() == 0 and x.max() == 1
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def check(parts, n):
    together = np.concatenate(parts)
    assert len(together) == n and len(np.unique(together)) == n


@given(st.integers(1, 60), st.integers(60, 300), st.integers(0, 5))
def test_iid(clients, n, seed):
    parts = iid()(np.zeros(n, int), 1, clients, np.random.default_rng(seed))
    check(parts, n)
    sizes = [len(p) for p in parts]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.floats(-6, 4).map(lambda e: 10**e),
    st.integers(0, 4),
    st.integers(0, 5),
    st.data(),
)
def test_dirichlet(clients, classes, alpha, least, seed, data):
    n = data.draw(st.integers(max(clients * least, 1), 400))
    y = np.random.default_rng(seed).integers(0, classes, n)
    make = lambda: dirichlet(alpha, least)(y, classes, clients, np.random.default_rng(seed))
    parts = make()
    check(parts, n)
    assert len(parts) == clients and min(len(p) for p in parts) >= least
    assert all((a == b).all() for a, b in zip(parts, make(), strict=True))


def test_dirichlet_never_hangs_with_500_clients_at_a_hundredth():
    y = np.repeat(np.arange(10), 500)
    parts = dirichlet(0.01, 5)(y, 10, 500, np.random.default_rng(0))
    check(parts, 5000)
    assert min(len(p) for p in parts) >= 5


def test_small_alpha_is_skewed_and_large_alpha_is_not():
    y = np.repeat(np.arange(10), 1000)
    mixed = lambda alpha: [
        np.bincount(y[p], minlength=10).max() / len(p)
        for p in dirichlet(alpha, 10)(y, 10, 50, np.random.default_rng(0))
    ]
    assert np.median(mixed(0.05)) > 0.6 > 0.15 > np.median(mixed(1000.0))


def test_proportions_have_the_moments_of_the_distribution():
    rng, alpha, n = np.random.default_rng(0), 0.3, 8
    from fedsim.data.partition import dirichlet_draw

    draws = np.array([dirichlet_draw(alpha, n, rng) for _ in range(20_000)])
    np.testing.assert_allclose(draws.mean(0), 1 / n, atol=0.006)
    np.testing.assert_allclose(draws.var(0), (1 / n) * (1 - 1 / n) / (n * alpha + 1), rtol=0.06)


def test_infeasible_minimum_is_refused_with_the_bound():
    with pytest.raises(PartitionError, match="at most 2"):
        dirichlet(0.3, 3)(np.zeros(25, int), 1, 10, np.random.default_rng(0))
    with pytest.raises(PartitionError, match="at most 5"):
        iid()(np.zeros(5, int), 1, 6, np.random.default_rng(0))


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30))
def test_apportion(quota):
    quota = np.array(quota)
    whole = apportion(quota, round(quota.sum()))
    assert whole.sum() == round(quota.sum()) and (np.abs(whole - quota) <= 1 + 1e-6).all()


def test_split_is_stratified_and_keeps_every_sample():
    arrays, classes = prepare(digits(), test=0.2, seed=0, dtype=np.dtype("float32"))
    assert classes == 10 and len(arrays.y) + len(arrays.y_test) == 1797
    np.testing.assert_allclose(np.bincount(arrays.y_test) / np.bincount(digits().y), 0.2, atol=0.006)
    assert stratified(np.array([0, 0, 1]), 0.0, np.random.default_rng(0)).sum() == 0


def test_natural_follows_the_ids():
    parts = natural(np.array(["b", "a", "b", "c"]))
    assert [p.tolist() for p in parts] == [[1], [0, 2], [3]]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (Arrays(np.zeros((3, 2)), np.array([0, -1, 1])), "y: row 1 has label -1"),
        (Arrays(np.array([[0.0], [np.nan]]), np.array([0, 1])), "x: row 1 is not finite"),
        (Arrays(np.zeros((3, 2)), np.zeros(2, int)), "x has 3 rows, y has 2"),
        (Arrays(np.zeros((0, 2)), np.zeros(0, int)), "no samples"),
        (Arrays(np.zeros((2, 2)), np.array(["a", "b"])), "integer labels"),
        (Arrays(np.array([["a"], ["b"]]), np.array([0, 1])), "numbers are needed"),
        (Arrays(np.zeros((2, 2)), np.zeros(2, int), np.zeros(3)), "3 ids for 2 samples"),
        (Arrays(np.zeros((2, 2)), np.zeros(2, int), x_test=np.zeros((2, 2))), "without y_test"),
        (Arrays(np.zeros((2, 2)), np.zeros(2, int), None, np.zeros((2, 3)), np.zeros(2, int)), "samples of shape"),
        (Arrays(np.zeros((2, 2)), np.array([0.5, np.inf])), "y: row 1 is not finite"),
    ],
)
def test_faults_are_named_with_their_row(arrays, said):
    with pytest.raises(DataError, match=said):
        prepare(arrays, test=0.0, seed=0, dtype=np.dtype("float32"))
