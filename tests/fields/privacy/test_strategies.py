"""How much one client can move correlated noise, against all placements of its rounds."""

import itertools

import numpy as np
import pytest
from conftest import if_whole, oracle

from fedsim.fields.privacy.counting.strategies import (
    Buffers,
    banded_coefficients,
    pattern_of,
    toeplitz_sums,
)
from fedsim.fields.privacy.counting.tree import TreeSensitivity
from fedsim.fleet.sampling import Sampling

CASES = oracle("dp_accounting")
BY_NAME = {case["name"]: case for case in CASES}
ROOTS = [case for case in CASES if case["fn"] == "matrix_factorisation"]
PATTERNS = list(itertools.product([1, 2, 5], [None, 1, 3]))  # gap, most


def placements(rounds: int, gap: int, most: int | None):
    """All sets of rounds that a client may take part in."""
    for chosen in itertools.product([0, 1], repeat=rounds):
        (where,) = np.nonzero(chosen)
        if (most is None or len(where) <= most) and (np.diff(where) >= gap).all():
            yield np.array(chosen)


def largest(matrix: np.ndarray, gap: int, most: int | None) -> float:
    rounds = matrix.shape[1]
    return max(float(np.sum((matrix @ u) ** 2)) for u in placements(rounds, gap, most))


def nodes(rounds: int, restart: int | None = None) -> np.ndarray:
    """A row for every node that is complete after so many rounds, 1 where it sums a round."""
    rows = []
    length = restart or rounds
    for start in range(0, rounds, length):
        end = min(start + length, rounds)
        size = 1
        while start + size <= end:
            for first in range(start, end - size + 1, size):
                row = np.zeros(rounds)
                row[first : first + size] = 1
                rows.append(row)
            size *= 2
    return np.array(rows)


def toeplitz(coefficients: np.ndarray, rounds: int) -> np.ndarray:
    padded = np.zeros(rounds)
    padded[: len(coefficients)] = coefficients[:rounds]
    offsets = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    return np.where(offsets >= 0, padded[offsets], 0.0)


@pytest.mark.parametrize("row", BY_NAME["tree_sensitivity"]["expected"]["table"])
def test_a_tree_follows_its_oracle(row):
    tree = TreeSensitivity(row["min_separation"] + 1, row["max_participation"])
    assert tree.after(row["T"]) == row["sens_sq"]


@pytest.mark.parametrize(("gap", "most"), PATTERNS)
def test_a_tree_is_the_worst_of_all_placements(gap, most):
    for restart in (None, 3, 4):
        tree = TreeSensitivity(gap, most, restart)
        for rounds in (1, 2, 5, 8, 9):
            assert tree.after(rounds) == largest(nodes(rounds, restart), gap, most)


def test_banded_coefficients_are_those_of_the_root_of_a_sum():
    """Squared, as a matrix, they sum: the coefficients of 1/(1 − x) are ones."""
    coefficients = banded_coefficients(40)
    assert np.convolve(coefficients, coefficients)[:40] == pytest.approx(np.ones(40))
    for case in ROOTS:
        norm = np.linalg.norm(banded_coefficients(case["params"]["n"]))
        assert norm == pytest.approx(case["expected"]["sqrt_toeplitz"]["sensitivity"], rel=1e-8)


@pytest.mark.parametrize(("gap", "most"), PATTERNS)
def test_bands_are_the_worst_of_all_placements(gap, most):
    buffers = Buffers(decay=(0.9, 0.3), scale=(0.2, 0.25))
    for coefficients in (banded_coefficients(1), banded_coefficients(4), buffers.coefficients(9)):
        matrix = toeplitz(coefficients, 9)
        for rounds in (1, 2, 6, 9):
            sums = toeplitz_sums(coefficients, rounds, gap, most)
            worst = largest(matrix[:rounds, :rounds], gap, most)
            assert np.sum(sums**2) == pytest.approx(worst)


@pytest.mark.parametrize(
    ("sampling", "pattern"),
    [
        (Sampling("all"), (1, None)),
        (Sampling("separated", size=3, gap=5, most=2), (5, 2)),
        (Sampling("cyclic", size=3), (3, None)),  # 10 clients: 4 turns at times, 3 at least
        (Sampling("cyclic", size=20), (1, None)),
        (Sampling("cyclic_poisson", groups=4), (4, None)),
    ],
)
def test_a_cohort_says_how_soon_a_client_can_come_again(sampling, pattern):
    assert pattern_of(sampling, clients=10) == pattern


@if_whole
@pytest.mark.long
def test_buffers_are_optimised_for_who_may_come_when():
    """They are as good as the banded root at a fraction of its memory; and can be accounted for."""
    pytest.importorskip("jax_privacy")
    from fedsim.fields.privacy.counting.strategies import optimised_buffers

    rounds, gap, most = 60, 10, 3
    buffers = optimised_buffers(2, rounds, gap, most)
    coefficients = buffers.coefficients(rounds)
    assert coefficients[0] == 1 and (np.diff(coefficients) <= 0).all() and coefficients.min() >= 0

    def loss(coefficients: np.ndarray) -> float:
        """The largest std of a prefix sum's noise, for a client of a norm of 1."""
        sums = toeplitz_sums(coefficients, rounds, gap, most)
        inverse = np.linalg.inv(toeplitz(coefficients, rounds))
        prefixes = np.cumsum(inverse, axis=0)
        return float(np.linalg.norm(sums) * np.linalg.norm(prefixes, axis=1).max())

    assert loss(coefficients) < loss(banded_coefficients(3))
    assert loss(coefficients) < loss(banded_coefficients(1))
