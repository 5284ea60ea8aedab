"""Cohorts that look at what clients report are not paired, and match plain NumPy."""

import numpy as np
import pytest
from by_hand import COHORTS
from numpy.testing import assert_allclose
from test_codecs import SIZES, D, problem_arrays, quadratics
from test_selection import made

from fedsim.fleet import Drawn, Population
from fedsim.fleet.selection import SKETCH_SIZE
from fedsim.fleet.streams import Stream, generator
from fedsim.study.verdict import unpaired_lines

nan = np.nan


def test_the_sentence_on_pairing_names_what_a_cohort_looks_at():
    line = "Cohorts of {} depend on {}, so they are not paired between methods."
    looks_at = {
        "importance by norm": "update norms",
        "importance by loss": "losses",
        "oort": "losses",
        "clustered by similarity": "updates",
        "divfl": "updates",
        "power_of_choice": "losses",
    }
    for name, (kind, parameters) in COHORTS.items():
        want = [line.format(kind, looks_at[name])] if name in looks_at else []
        assert unpaired_lines({"cohort": {"kind": kind, **parameters}}) == want

    uniform = {"kind": "uniform"}
    clustered = {"kind": "clustered", "size": 3, "by": "similarity"}
    varied = {"cohort": uniform, "compare": {"vary": {"cohort": ["all", clustered]}}}
    assert unpaired_lines(varied) == [line.format("clustered", "updates")]
    varied = {"cohort": uniform, "compare": {"vary": {"cohort.kind": ["uniform", "oort"]}}}
    assert unpaired_lines(varied) == [line.format("oort", "losses")]


KINDS = {
    "importance": {"size": 3, "by": "norm"},
    "divfl": {"size": 3, "candidates": 4},
    "oort": {"size": 3},
    "least_participated": {"size": 3},
    "power_of_choice": {"size": 3, "candidates": 4},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_clients_report_matches_plain_numpy(kind):
    """Partial participation, clients without samples, half a server step.

    Cohorts with factors divide by the expected number of samples.
    """
    (H, a), n, lr, steps, rounds = problem_arrays(), np.array(SIZES), 0.05, 3, 9
    N, x, joined = len(n), np.full(D, 2.0), np.zeros(len(n), int)
    known = {"loss": np.full(N, nan), "norm": np.full(N, nan)}
    known |= {"sketch": np.full((N, SKETCH_SIZE), nan), "seconds": np.full(N, float(steps))}
    known |= {"drawn": np.zeros(N, int), "last": np.zeros(N, int)}
    cohort, present = made(kind, **KINDS[kind]), np.flatnonzero(n)
    for r in range(1, rounds + 1):
        columns = {name: column[present] for name, column in known.items()}
        whole = Population(present, n[present], **columns)
        drawn = cohort.draw(whole, r, generator(3, Stream.COHORT, r))
        ids, factors = drawn if isinstance(drawn, Drawn) else (drawn, np.ones(len(drawn)))
        total, weight = np.zeros(D), n.sum() if cohort.factors else n[ids].sum()
        for i, factor in zip(ids, factors, strict=True):
            y, losses = x, []
            for _ in range(steps):
                losses.append(0.5 * (y - a[i]) @ H[i] @ (y - a[i]))
                y = y - lr * H[i] @ (y - a[i])
            total = total + n[i] * factor * (y - x)
            known["loss"][i], known["norm"][i] = np.mean(losses), np.linalg.norm(y - x)
            known["sketch"][i] = sketched(y - x)
        known["drawn"][ids] += 1
        known["last"][ids], x = r, x + 0.5 * total / weight
        joined[ids] += 1
    mean = {"kind": "mean", "denominator": "expected" if cohort.factors else "actual"}
    result = quadratics(
        rounds=rounds,
        seeds=[3],
        cohort={"kind": kind, **KINDS[kind]},
        client={"lr": lr, "batch": "full", "steps": steps},
        server=[mean, {"kind": "sgd", "lr": 0.5}],
    )
    assert_allclose(result.model(), x, rtol=1e-12)
    assert result.clients["rounds_joined"].tolist() == joined.tolist()


def hashed(x: int) -> int:
    """The hash of positions, in Python's integers."""
    x = (x ^ x >> 16) * 0x85EBCA6B % 2**32
    x = (x ^ x >> 13) * 0xC2B2AE35 % 2**32
    return x ^ x >> 16


def sketched(update: np.ndarray) -> np.ndarray:
    """Signs and positions of the first coordinates."""
    row, turn = np.zeros(SKETCH_SIZE), hashed(0x9E3779B9)
    for j, value in enumerate(update):
        row[(j - turn) % SKETCH_SIZE] = value * (1 - 2 * (hashed(j) >> 31))
    return row
