"""Columns in ascending order."""

import jax
import jax.numpy as jnp
import pytest

from fedsim.rules.sorting import Ranks, by_sorted_columns

ROWS = 30


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


@pytest.mark.long
def test_nobody_present_is_the_same_in_one_block_and_in_several():
    nobody = jnp.zeros(ROWS, bool)
    for columns in (3, 100_000):
        stack = jnp.zeros((ROWS, columns))
        assert jnp.isposinf(by_sorted_columns(lowest, stack, nobody)).all()
