"""Columns in ascending order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.rules.sorting import Ranks, ascending, by_sorted_columns, middle

ROWS = 30
FEW, MANY = 13, 70  # rows that one operation sorts, and that are sorted layer by layer


def lowest(ranks: Ranks):
    return ranks.at(jnp.asarray(0))


def test_rows_that_read_a_small_result_do_not_sort_once_more():
    """XLA would sort in the pass that reads the result, once for each of the rows."""

    def distances(stack, present):
        return jnp.abs(stack - by_sorted_columns(lowest, stack, present))

    stack = jnp.ones((ROWS, 100))
    present = jnp.ones(ROWS, bool)
    program = jax.jit(distances).lower(stack, present).compile().as_text()
    passes = program.split("\n}\n")
    sorts = [text for text in passes if " minimum(" in text]
    reads = [text for text in passes if " abs(" in text]
    assert sorts
    assert reads
    assert not set(sorts) & set(reads)


def test_nobody_present_is_the_same_in_one_block_and_in_several():
    nobody = jnp.zeros(ROWS, bool)
    for columns in (3, 100_000):
        stack = jnp.zeros((ROWS, columns))
        assert jnp.isposinf(by_sorted_columns(lowest, stack, nobody)).all()


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_rows_in_several_blocks_are_those_that_numpy_sorts(rows):
    rng = np.random.default_rng(0)
    shapes = ((50_000,), (7, 3), (30_000,))
    leaves = [rng.normal(size=(rows, *shape)).astype(np.float32) for shape in shapes]
    present = rng.random(rows) < 0.9
    leaves[0][3, :50] = np.nan
    present[3] = True

    def reduce(ranks: Ranks):
        return ranks.at(jnp.asarray(9)) + ranks.sum(2, jnp.asarray(5))

    got = jax.jit(lambda leaves: by_sorted_columns(reduce, leaves, jnp.asarray(present)))(leaves)
    for leaf, row in zip(leaves, got, strict=True):
        ordered = np.sort(leaf[present], axis=0)
        total = np.zeros(leaf.shape[1:], np.float32)
        for rank in range(2, 7):
            total += ordered[rank]
        np.testing.assert_array_equal(row, ordered[9] + total)


def test_columns_ascend_and_have_the_median_of_their_first_values():
    columns = np.random.default_rng(1).normal(size=(11, 7)).astype(np.float32)
    columns[2, 3] = np.nan
    columns[4, 5] = 0
    ordered = jax.jit(ascending)(columns)
    want = np.sort(np.where(np.isnan(columns), np.inf, columns), axis=0)
    np.testing.assert_array_equal(ordered[:11], want)
    assert ordered.shape == (16, 7) and jnp.isposinf(ordered[11:]).all()
    assert jax.eval_shape(ascending, jnp.zeros((8, 1))).shape == (8, 1)
    for m in (1, 4, 9):
        medians = np.median(want[:m], axis=0)
        np.testing.assert_allclose(middle(ordered, jnp.int32(m)), medians, rtol=1e-6)
