"""Rules that tell who is malicious from residuals, layers or histories, on stacks with absent, infinite and outlying rows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reference import detectors

import fedsim

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ROOM, D = 16, 30


def among_others(rows, seed: int):
    """The rows among absent ones and one that is not finite -> (stack, sample counts)."""
    rng = np.random.default_rng(seed)
    stack = np.full((ROOM, rows.shape[1]), 1e30)
    place = np.sort(rng.permutation(ROOM)[: len(rows) + 1])
    lost = rng.integers(len(place))
    stack[place[lost]] = np.where(np.arange(rows.shape[1]) % 7 == 3, np.inf, rows[0])
    stack[np.delete(place, lost)] = rows
    return stack, np.isin(np.arange(ROOM), place).astype(float)


def of_paper(rule, rows):
    return rule(rows[0], [0]).reduce(SimpleNamespace(updates=rows, x=0 * rows[0], clients=list(range(len(rows)))))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "ties", "outliers"])
def test_residual_reweighting_is_that_of_numpy(kind):
    rng = np.random.default_rng(4)
    for m in (3, 4, 7, 10, 15):
        rows: Any = rng.normal(size=(m, D))
        rows = np.round(rows * 2) if kind == "ties" else rows
        if kind == "outliers":
            rows[: m // 4] = -50 + rng.normal(size=(m // 4, D))
            rows[m // 4, ::3] = 1e6
        stack, w = among_others(rows, m)
        got = fedsim.aggregate("residual_reweighting", stack, weights=w)
        np.testing.assert_allclose(got, of_paper(detectors.ResidualReweighting, rows), rtol=1e-9, atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "ties", "outliers"])
def test_lasa_is_that_of_numpy(kind):
    rng, ends = np.random.default_rng(6), (12, 13, D)
    for m in (1, 2, 3, 4, 7, 10, 15):
        rows: Any = rng.normal(size=(m, D)) + 0.3
        rows = np.round(rows * 2) if kind == "ties" else rows
        rows[: m // 4] *= -9 if kind == "outliers" else 1
        stack, w = among_others(rows, m)
        got = fedsim.aggregate("lasa", [stack[:, :12], stack[:, 12], stack[:, 13:].reshape(ROOM, 1, 17)], weights=w)
        rule = type("Rule", (detectors.Lasa,), {"ends": ends})
        got = np.concatenate([np.ravel(leaf) for leaf in got])
        np.testing.assert_allclose(got, of_paper(rule, rows), rtol=1e-12, atol=1e-13)
