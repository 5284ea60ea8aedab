"""The direction in which rows spread most."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.rules.eigen import dominant

ROWS = 11


def spread(rank: int) -> np.ndarray:
    """The products of rows that have more in common the lower their rank is."""
    rows = np.random.default_rng(rank).normal(size=(ROWS, rank))
    return (rows @ rows.T).astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize("matrix", [spread(1), spread(3), spread(20)], ids=["1", "3", "20"])
def test_it_is_the_largest_eigenvector_whatever_rows_are_zero(matrix):
    values, vectors = np.linalg.eigh(matrix.astype(float))
    found = jax.jit(dominant)
    value, vector = found(matrix)
    assert value == pytest.approx(values[-1], rel=1e-5)
    assert abs(vector @ vectors[:, -1]) == pytest.approx(1, abs=1e-5)

    for slots in (12, 16, 17, 40):
        rows = np.sort(np.random.default_rng(slots).permutation(slots)[:ROWS])
        wide = np.zeros((slots, slots), np.float32)
        wide[np.ix_(rows, rows)] = matrix
        wide_value, wide_vector = found(wide)
        assert wide_value == value
        assert np.asarray(wide_vector)[rows].tobytes() == np.asarray(vector).tobytes()
        assert not np.delete(wide_vector, rows).any()


@pytest.mark.long
def test_directions_of_equal_spread_and_none_at_all():
    value, vector = dominant(jnp.eye(ROWS))
    assert value == pytest.approx(1)
    assert np.linalg.norm(vector) == pytest.approx(1)
    value, vector = dominant(jnp.zeros((ROWS, ROWS)))
    assert value == 0
    assert not vector.any()
