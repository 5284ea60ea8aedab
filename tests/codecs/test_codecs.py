"""Codecs on the wire and in the broadcast: what arrives, what is remembered, and its bytes."""

import numpy as np
import pytest
from federations import quadratic
from numpy.testing import assert_array_equal
from reference.scenarios import consecutive

import fedsim
from fedsim.errors import ScenarioError

SCENARIO = {
    "name": "codecs",
    "rounds": 5,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 10},
    "cohort": {"kind": "uniform", "size": 6},
    "wire": [{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 9}}],
}
SIZES, D = [4, 1, 0, 3, 2, 0, 5], 4


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


def test_a_message_is_counted_as_it_travels():
    stack = {"w": np.arange(12.0).reshape(2, 6), "b": np.ones((2, 3))}
    arrived, size = fedsim.transmit([{"kind": "top_k", "k": 4}], stack)
    assert size.tolist() == [-(-4 * (32 + 4) // 8)] * 2
    assert_array_equal(arrived["w"], [[0, 0, 2, 3, 4, 5], [0, 0, 8, 9, 10, 11]])
    assert_array_equal(arrived["b"], np.zeros((2, 3)))
    assert fedsim.transmit("cast", stack)[1].tolist() == [18, 18]
    assert (
        fedsim.transmit([{"kind": "top_k", "density": 0.3}], stack)[1].tolist()
        == [-(-3 * 36 // 8)] * 2
    )


def test_a_message_that_is_not_finite_is_found_behind_the_codec():
    arrived, _ = fedsim.transmit({"kind": "top_k", "k": 1}, [[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]])
    assert np.isnan(arrived[0][1]) and arrived[0][2] == 3 and arrived[1].tolist() == [0, 0, 6]


def problem_arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(len(SIZES), D, D))
    return roots @ roots.swapaxes(1, 2) / D + np.eye(D), rng.normal(size=(len(SIZES), D))


def quadratics(start: float = 2.0, **sections) -> fedsim.Result:
    """Through `fedsim.run`: client i has SIZES[i] copies of its sample."""
    H, a = problem_arrays()
    brought = quadratic({"H": H, "a": a, "sizes": SIZES, "x0": np.full(D, start)})
    data = {"clients": len(SIZES), "test": 0.0}
    scenario = {"name": "quadratics", "data": data, "numerics": {"dtype": "float64"}, **sections}
    samples = fedsim.Arrays(brought["data"].x, brought["data"].y)
    return fedsim.run(scenario, **{**brought, "data": samples}, partition=consecutive(SIZES))


@pytest.mark.long
def test_of_a_message_that_is_lost_the_memory_stays():
    lossy = {"wire": [*SCENARIO["wire"], "nonfinite"], "fleet": {"malicious": [0, 1, 2]}}
    result = run(cohort="all", rounds=2, **lossy)
    errors = result.state()["client"]["error_feedback"]["error"]
    assert not errors[:3].any() and errors[3:].any(axis=1).all()
    assert result.rounds["n_nonfinite"].tolist() == [0, 3, 3]


SKETCH = [{"kind": "count_sketch", "rows": 3, "columns": 40}]
REFUSED = {
    "two for the downlink": (
        {"broadcast": ["cast", "cast"]},
        "broadcast: should be a list of at most one codec (fedsim list codecs), found a list",
    ),
    "no memory of it": (
        {"wire": [{"kind": "error_feedback", "codec": SKETCH[0]}]},
        "wire[0]: error_feedback: count_sketch is decoded after the rule",
    ),
    "nested": (
        {
            "wire": [
                {"kind": "error_feedback", "codec": {"kind": "error_feedback", "codec": "cast"}}
            ]
        },
        "wire[0].codec",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name):
    changes, text = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(**changes)
    assert text in str(error.value)
