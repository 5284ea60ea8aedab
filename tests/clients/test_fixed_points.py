"""Closed forms on quadratics: where a method ends, and how far it has come after some rounds."""

import numpy as np
import pytest
from conftest import WHOLE, oracle
from federations import quadratic

import fedsim

CASES = oracle("quadratic_fixed_points")
AFTER = [c for c in CASES if c["fn"] in ("fedavg", "fedprox")]
UNBIASED = [c for c in CASES if c["fn"] == "unbiased_methods"]


def scenario(p: dict, rounds: int, **sections) -> dict:
    client = {"lr": p["lr"], "batch": "full", "steps": p["local_steps"]}
    if "mu" in p:
        client |= {"kind": "fedprox", "mu": p["mu"]}
    written = {"name": "quadratic", "rounds": rounds, "client": client}
    settings = {"numerics": {"dtype": "float64"}, "evaluate": {"every": rounds}}
    return {**written, **settings, **sections}


@pytest.mark.long
@pytest.mark.parametrize("case", AFTER, ids=lambda case: case["name"])
def test_after_some_rounds(case):
    p = case["params"]
    server = [{"kind": "mean", "weights": p["weighting"]}]
    end = fedsim.run(scenario(p, p["rounds"], server=server), **quadratic(case["inputs"])).model()
    near = {"rtol": case["rtol"], "atol": case["atol"]}
    np.testing.assert_allclose(end, case["expected"]["x_after"], **near)


UNBIASED_METHODS = [
    {"kind": "scaffold", "option": 1},
    {"kind": "scaffold"},
    {"kind": "mime", "beta": 0.0},
    {"kind": "fedlin"},
]


@pytest.mark.long
@pytest.mark.parametrize("case", UNBIASED if WHOLE else UNBIASED[:1], ids=lambda case: case["name"])
@pytest.mark.parametrize(
    "method",
    UNBIASED_METHODS if WHOLE else UNBIASED_METHODS[1:3],
    ids=lambda method: "".join(map(str, method.values())),
)
def test_unbiased_methods_reach_the_optimum(case, method):
    p = case["params"]
    written = scenario(p, p["rounds"], server=[{"kind": "mean", "weights": p["optimum_weights"]}])
    written["client"] |= method
    if method["kind"] == "fedlin":
        written["client"]["lr"] *= p["local_steps"]  # which it divides among the steps
    end = fedsim.run(written, **quadratic(case["inputs"])).model()
    np.testing.assert_allclose(end, case["expected"]["optimum"], rtol=case["rtol"], atol=1e-10)


def test_all_cases_are_there():
    assert (len(AFTER), len(UNBIASED)) == (160, 4)
