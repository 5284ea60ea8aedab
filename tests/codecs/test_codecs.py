"""Codecs on the wire and in the broadcast: what arrives, what is remembered, and its bytes."""

import numpy as np
import pytest
from federations import quadratic
from numpy.testing import assert_array_equal
from reference.scenarios import consecutive

import fedsim
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

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


def trained(x: np.ndarray, i: int, lr: float, steps: int) -> np.ndarray:
    """The update of client i of the quadratics."""
    H, a = problem_arrays()
    y = x.copy()
    for _ in range(steps):
        y = y - lr * H[i] @ (y - a[i])
    return y - x


def quadratics(start: float = 2.0, **sections) -> fedsim.Result:
    """Through `fedsim.run`: client i has SIZES[i] copies of its sample."""
    H, a = problem_arrays()
    brought = quadratic({"H": H, "a": a, "sizes": SIZES, "x0": np.full(D, start)})
    data = {"clients": len(SIZES), "test": 0.0}
    scenario = {"name": "quadratics", "data": data, "numerics": {"dtype": "float64"}, **sections}
    samples = fedsim.Arrays(brought["data"].x, brought["data"].y)
    return fedsim.run(scenario, **{**brought, "data": samples}, partition=consecutive(SIZES))


SKETCH = {"kind": "count_sketch", "rows": 3, "columns": 40}
SUMMED = {"kind": "secure_aggregation", "bits": 20, "scale": 4096.0}
LAZY = {"kind": "lazy", "probability": 0.5}


def feedback(codec) -> list:
    return [{"kind": "error_feedback", "codec": codec}]


REFUSED = {  # what for -> sections of the scenario, and what the line says
    "two for the downlink": (
        {"broadcast": ["cast", "cast"]},
        "broadcast: should be a list of at most one codec (fedsim list codecs), found a list",
    ),
    "no memory of a sketch": (
        {"wire": feedback(SKETCH)},
        "wire[0]: error_feedback: count_sketch is decoded after the rule",
    ),
    "no memory of a sum": (
        {"wire": feedback(SUMMED)},
        "wire[0]: error_feedback: secure_aggregation is decoded after the rule",
    ),
    "no memory of a memory": (
        {"wire": feedback(LAZY)},
        "lazy remembers what was received, and needs no memory around it",
    ),
    "nested": ({"wire": feedback(feedback("cast")[0])}, "wire[0].codec"),
    "a sketch with a memory and no k": (
        {"wire": [{"kind": "count_sketch", "momentum": 0.9}]},
        "momentum and masked need k",
    ),
    "no shift of a sketch": (
        {"wire": [{"kind": "diana", "alpha": 0.1, "codec": {"kind": "count_sketch"}}]},
        "diana: count_sketch is decoded after the rule",
    ),
    "a shift without a pace": ({"wire": [{"kind": "diana", "codec": "cast"}]}, "alpha"),
    "values in a sketch": (
        {"wire": [{"kind": "top_k", "k": 3, "values": "count_sketch"}]},
        "wire[0]: top_k: count_sketch cannot send values: its",
    ),
    "values with a memory": (
        {"wire": [{"kind": "rand_k", "k": 3, "values": LAZY}]},
        "wire[0]: rand_k: lazy cannot send values: it has a memory",
    ),
    "sparse values": (
        {"wire": [{"kind": "top_k", "k": 3, "values": {"kind": "top_k", "k": 2}}]},
        "wire[0].values",
    ),
    "entropy of values of any length": (
        {"wire": [{"kind": "top_k", "k": 3, "values": "threshold(value=1)", "entropy": True}]},
        "entropy: the bits of threshold depend on the values",
    ),
    "neither number nor share": (
        {"wire": [{"kind": "rand_k"}]},
        "wire[0]: rand_k: give one of k and density",
    ),
    "more bits than a word has": (
        {"wire": [{**SUMMED, "bits": 33}]},
        "wire[0].bits: should be an integer from 2 to 32",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name):
    changes, text = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(**changes)
    assert text in str(error.value)
