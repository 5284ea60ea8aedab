"""Laws of stacks and of the one aggregation primitive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim import tree
from fedsim.tree import draws


def test_trees_are_stacked_unstacked_and_summed_by_weights():
    rng = np.random.default_rng(0)
    drawn = lambda *shape: jnp.asarray(rng.normal(size=shape))
    trees = [{"w": drawn(3, 2), "b": [drawn(2)]} for _ in range(5)]
    stacked = tree.stack(trees)
    assert tree.rows(stacked) == 5
    for one, other in zip(tree.unstack(stacked), trees, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)

    weights = np.array([1.0, 0.0, 2.0, 3.0, 0.5])
    total = tree.weighted_sum(stacked, jnp.asarray(weights))
    expected = jax.tree.map(lambda *leaves: np.tensordot(weights, leaves, 1), *trees)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    jax.tree.map(close, total, expected)


@pytest.mark.quick(3)
@pytest.mark.parametrize("cuts", [(1,), (2, 4), (1, 2, 3, 4)])
def test_a_sum_cut_into_blocks_has_the_bits_of_the_whole_sum(cuts):
    rng = np.random.default_rng(3)
    stack = rng.normal(size=(5, 1000)).astype(np.float32)
    w = rng.uniform(1, 100, 5).astype(np.float32)
    total = jnp.zeros(1000, jnp.float32)
    for rows in np.split(np.arange(5), cuts):
        total = tree.fold(total, jnp.asarray(stack[rows]), jnp.asarray(w[rows]))
    whole = tree.weighted_sum(jnp.asarray(stack), jnp.asarray(w))
    assert total.tobytes() == whole.tobytes()


ROWS = np.arange(23)[:, None]
FAR = {  # how rows lie to each other -> what becomes of random ones
    "plain": lambda X: X,
    "common mean": lambda X: 1e4 + X,
    "outlier": lambda X: np.where(ROWS == 5, 1e9, X),
    "almost the same": lambda X: np.where(ROWS % 2, X[0] + 1e-4 * X, X),
    "the same": lambda X: np.where((ROWS >= 3) & (ROWS < 9), X[2], X),
    "huge": lambda X: 1e18 * X,
}


@pytest.mark.parametrize("kind", FAR)
def test_squared_distances_keep_their_precision(kind):
    X = FAR[kind](np.random.default_rng(4).normal(size=(23, 5003))).astype(np.float32)
    present = np.arange(23) != 7
    parts = {"a": X[:, :4500].reshape(23, 9, 500), "b": np.zeros((23, 0)), "c": X[:, 4500:]}
    stacked = jax.tree.map(jnp.asarray, parts)
    got = np.asarray(jax.jit(tree.squared_distances)(stacked, jnp.asarray(present)))
    X = X.astype(float)
    want = np.square(X[:, None] - X[None]).sum(-1)
    limit = np.finfo(np.float32).max
    both = present[:, None] & present[None, :]
    np.testing.assert_allclose(got[both], np.minimum(want, limit)[both], rtol=2e-5)
    assert np.isposinf(got[~both]).all()
    np.testing.assert_array_equal(got, got.T)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "shapes", [[(3,), (2, 2), (1,)], [(3,), (5000,), (2, 2), (4096,), (1,)], [(66_000,), (7,)]]
)
def test_products_of_rows_count_every_column_of_every_leaf_once(shapes):
    rng = np.random.default_rng(2)
    present = np.arange(5) != 1
    stacked = [jnp.asarray(rng.normal(size=(5, *shape)), jnp.float32) for shape in shapes]
    flat = np.concatenate([np.asarray(leaf, float).reshape(5, -1) for leaf in stacked], axis=1)
    centred = flat[present] - flat[present].mean(0)

    got = np.asarray(jax.jit(tree.gram)(stacked, jnp.asarray(present)))
    products = got[np.ix_(present, present)]
    scale = np.square(centred).sum(1).max()
    np.testing.assert_allclose(products, centred @ centred.T, atol=2e-6 * scale)
    assert not got[1].any()
    assert not got[:, 1].any()


def test_rows_with_nan_or_infinity_are_not_finite():
    largest = np.finfo(np.float32).max
    rows = [[largest, -largest], [np.nan, 0], [np.inf, 1], [0, -np.inf], [1e-45, -0.0], [1, 2]]
    w = np.array(rows, np.float32)
    half = jnp.asarray([[1], [1], [1], [1], [1], [np.nan]], jnp.float16)
    count = jnp.full((6, 2, 2), 2**31 - 1)
    stacked = {"w": jnp.asarray(w), "none": jnp.zeros((6, 0)), "count": count}
    finite_rows = jax.jit(tree.finite_rows, static_argnums=1)
    finite = lambda stacked: np.asarray(finite_rows(stacked, 6)).tolist()
    assert finite(stacked) == [True, False, False, False, True, True]
    assert finite({**stacked, "half": half}) == [True, False, False, False, True, False]


@pytest.mark.quick(5)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("D", [1, 31, 32, 100, 5000])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(D, dtype):
    largest = jnp.finfo(dtype).max
    places = sorted({0, D // 2, D - 2, D - 1} - {-1})
    rows = np.full((3 * len(places) + 1, D), -largest, dtype)
    for i, place in enumerate(places):
        for j, value in enumerate([np.inf, -np.inf, -np.nan]):
            rows[3 * i + j, place] = value
    want = [False] * (3 * len(places)) + [True]
    finite_rows = jax.jit(tree.finite_rows, static_argnums=1)
    assert finite_rows(jnp.asarray(rows), len(rows)).tolist() == want


@pytest.mark.quick(2)
@pytest.mark.parametrize("d", [1, 31, 32, 5000])
def test_all_true_entries_are_counted(d):
    count = jax.jit(tree.count)
    mask = np.random.default_rng(d).random(d) < 0.3
    assert int(count(jnp.asarray(mask))) == mask.sum()
    assert int(count(jnp.ones(d, bool))) == d


TWO = {"w": jnp.zeros(2)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tree.stack([]), "no trees"),
        (lambda: tree.stack([TWO, {"w": jnp.zeros(3)}]), r"1: leaf \['w'\] has shape \(3,\)"),
        (lambda: tree.stack([TWO, {"v": jnp.zeros(2)}]), "structure"),
        (lambda: tree.stack([TWO, {"w": jnp.zeros(2, int)}]), "int32"),
        (lambda: tree.weighted_sum(TWO, jnp.zeros(3)), r"2 rows need weights of shape \(2,\)"),
        (lambda: tree.rows({"a": jnp.zeros((2, 3)), "b": jnp.zeros((3, 3))}), "3 rows"),
        (lambda: tree.rows({"a": jnp.zeros(())}), "scalar"),
        (lambda: tree.rows({}), "no client axis"),
    ],
)
def test_mismatches_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.quick(3)
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_draws_have_the_bits_of_jax(n):
    def of_both(key):
        words = draws.bits(key, n), jax.random.bits(key, (n,), "uint32")
        return words, (draws.uniform(key, n, jnp.float32), jax.random.uniform(key, (n,)))

    for ours, expected in jax.jit(jax.vmap(of_both))(jax.random.split(jax.random.key(3), 4)):
        assert (ours == expected).all()


@pytest.mark.quick(8)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(64, 10), (7, 13), (5, 5, 1, 32), (3,)])
def test_start_values_have_the_bits_of_jax(shape, dtype):
    key = jax.random.key(3)
    with jax.enable_x64(dtype == "float64"):
        drawn = draws.uniform_within(key, shape, 0.3, dtype)
        expected = jax.random.uniform(key, shape, dtype, -0.3, 0.3)
        assert drawn.dtype == expected.dtype
        assert (drawn == expected).all()


@pytest.mark.long
@pytest.mark.parametrize("factor", [1.0, 1e-20, 1e30])
def test_distances_and_angles_are_those_of_numpy_whatever_their_size(factor):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 3000)) * np.array([1, 1, 0, 3, 1, 1])[:, None]
    x[5] = x[4] * (1 + 1e-4 * rng.normal(size=3000))  # nearly the same direction
    present = np.array([True, True, True, True, True, False])
    lengths = np.linalg.norm(x, axis=1)
    for rows in ([0, 1, 3], [0, 1, 2, 3, 4, 5]):  # without and with the slow way
        stack = {"w": jnp.asarray(x[rows] * factor, jnp.float32)}
        here = jnp.asarray(present[rows] if 5 not in rows else np.ones(6, bool))
        found, usable = jax.jit(tree.distances)(stack, tree.zero_row(stack), here)
        np.testing.assert_allclose(found / factor, lengths[rows], rtol=1e-5)
        angles = jax.jit(tree.angles)(stack, here)
        assert usable.all() and angles.usable.all()
        np.testing.assert_allclose(angles.lengths / factor, lengths[rows], rtol=1e-5)
        units = x[rows] / np.maximum(lengths[rows], 1e-9)[:, None]
        np.testing.assert_allclose(angles.cosines, units @ units.T, atol=1e-6)


def test_a_row_that_is_not_finite_is_not_usable():
    here = jnp.asarray([True, True, True, False])
    usable = jax.jit(lambda x: (tree.distances(x, x[0], here)[1], tree.angles(x, here).usable))
    for value in (np.nan, np.inf):
        x = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
        x[1, 7] = value
        for found in usable(x):
            assert found.tolist() == [True, False, True, False]
