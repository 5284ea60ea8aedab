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

    stack["w"][0, 1] = np.nan  # which is found behind the codec
    arrived, _ = fedsim.transmit([{"kind": "top_k", "k": 4}], stack)
    assert_array_equal(arrived["w"], [[0, np.nan, 2, 3, 4, 5], [0, 0, 8, 9, 10, 11]])


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
TOP = {"kind": "top_k", "k": 3}
ENTROPY = {"values": "threshold(value=1)", "entropy": True}
feedback = lambda codec: {"kind": "error_feedback", "codec": codec}
REFUSED = {  # what for -> the codec, and what the line says
    "no memory of a sketch": (feedback(SKETCH), "count_sketch is decoded after the rule"),
    "no memory of a sum": (feedback(SUMMED), "secure_aggregation is decoded after the rule"),
    "no memory of a memory": (feedback(LAZY), "lazy remembers what was received, and needs no"),
    "nested": (feedback(feedback("cast")), "wire[0].codec"),
    "a sketch with a memory and no k": (
        {"kind": "count_sketch", "momentum": 0.9},
        "momentum and masked need k",
    ),
    "no shift of a sketch": (
        {"kind": "diana", "alpha": 0.1, "codec": {"kind": "count_sketch"}},
        "diana: count_sketch is decoded after the rule",
    ),
    "a shift without a pace": ({"kind": "diana", "codec": "cast"}, "alpha"),
    "values in a sketch": (
        {**TOP, "values": "count_sketch"},
        "wire[0]: top_k: count_sketch cannot send values: its",
    ),
    "values with a memory": (
        {**TOP, "values": LAZY},
        "wire[0]: top_k: lazy cannot send values: it has a memory",
    ),
    "sparse values": ({**TOP, "values": {"kind": "top_k", "k": 2}}, "wire[0].values"),
    "entropy of values of any length": (
        {**TOP, **ENTROPY},
        "entropy: the bits of threshold depend on the values",
    ),
    "neither number nor share": ({"kind": "rand_k"}, "wire[0]: rand_k: give one of k and density"),
    "more bits than a word has": (
        {**SUMMED, "bits": 33},
        "wire[0].bits: should be an integer from 2 to 32",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name):
    codec, text = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(wire=[codec])
    assert text in str(error.value)


def test_the_downlink_takes_one_codec():
    with pytest.raises(ScenarioError, match="broadcast: should be a list of at most one codec"):
        run(broadcast=["cast", "cast"])
