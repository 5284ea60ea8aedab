"""Columns in ascending order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.rules.sorting import Ranks, by_sorted_columns

ROWS = 30
MANY = 70  # more than a network of a single operation sorts


def lowest(ranks: Ranks):
    return ranks.at(jnp.asarray(0))


@pytest.mark.long
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


@pytest.mark.long
def test_nobody_present_is_the_same_in_one_block_and_in_several():
    nobody = jnp.zeros(ROWS, bool)
    for columns in (3, 100_000):
        stack = jnp.zeros((ROWS, columns))
        assert jnp.isposinf(by_sorted_columns(lowest, stack, nobody)).all()


def test_many_rows_in_several_blocks_are_those_that_numpy_sorts():
    rng = np.random.default_rng(0)
    leaves = [rng.normal(size=(MANY, *shape)).astype(np.float32) for shape in ((5000,), (7, 3))]
    present = rng.random(MANY) < 0.9
    leaves[0][3, :50] = np.nan
    present[3] = True

    def reduce(ranks: Ranks):
        return ranks.at(jnp.asarray(20)) + ranks.sum(2, jnp.asarray(10))

    got = jax.jit(lambda leaves: by_sorted_columns(reduce, leaves, jnp.asarray(present)))(leaves)
    for leaf, row in zip(leaves, got, strict=True):
        ordered = np.sort(leaf[present], axis=0)
        total = np.zeros(leaf.shape[1:], np.float32)
        for rank in range(2, 12):
            total += ordered[rank]
        np.testing.assert_array_equal(row, ordered[20] + total)
