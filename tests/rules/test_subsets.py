"""Rules that evaluate all subsets of the clients: which they choose, and when they refuse."""

import itertools
import math
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.rules.subsets import MAX_SUBSETS, best_subset, most_rows

TOO_MANY = "goes through all subsets without f=5 clients, of at most 31 clients"


@pytest.mark.parametrize("f", [1, 2, 5, 9])
def test_the_most_rows_are_those_with_no_more_subsets_than_that(f):
    m = most_rows(f)
    assert math.comb(m, f) <= MAX_SUBSETS < math.comb(m + 1, f)


@pytest.mark.long
@pytest.mark.parametrize("f", [0, 1, 3])
def test_every_subset_is_seen_once_in_lexicographic_order(f):
    present = np.array([1, 0, 1, 1, 1, 0, 1, 1], bool)
    rows = np.flatnonzero(present)
    for want in itertools.combinations(rows, len(rows) - f):
        mask = np.isin(np.arange(8), want)
        off = lambda kept, mask=mask: jnp.sum(kept != mask, axis=1, dtype=jnp.float32)
        assert np.flatnonzero(best_subset(off, jnp.asarray(present), f)).tolist() == list(want)
    same = best_subset(lambda kept: jnp.ones(len(kept)), jnp.asarray(present), f)
    assert np.flatnonzero(same).tolist() == rows[: len(rows) - f].tolist()


@pytest.mark.parametrize("kind", ["minimum_diameter", "smallest_eigenvalue"])
def test_more_subsets_than_can_be_gone_through_are_refused(kind):
    with pytest.raises(
        fedsim.ScenarioError,
        match=f"{kind} {TOO_MANY}, and 60 rows reported; lower f, or give fewer",
    ):
        fedsim.aggregate({"kind": kind, "f": 5}, np.ones((60, 2)))


SIDE_BY_SIDE = """
import fedsim
values = {
    "name": "side_by_side",
    "rounds": 8,
    "seeds": 2,
    "data": {"kind": "digits", "clients": 16, "partition": "dirichlet(alpha=0.5)"},
    "model": "mlp(hidden=[16])",
    "cohort": "uniform(size=12)",
    "client": {"steps": 4, "batch": 8},
    "server": ["smallest_eigenvalue(f=2)"],
}
assert len(fedsim.run(values).rounds) == 2 * 9
"""


@pytest.mark.long
def test_runs_that_close_their_rounds_at_once_on_two_threads_come_to_an_end():
    """A batch of eigenvalues that XLA divides among two threads waits for ever there."""
    environment = {**os.environ, "NPROC": "2"}
    subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], env=environment, timeout=120, check=True)
