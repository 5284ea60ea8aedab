"""Aggregates, stages and attacks of an independent reference, in float64, through `fedsim.aggregate` and `fedsim.transmit`."""

import numpy as np
import pytest
from conftest import oracle

import fedsim


def array(values) -> np.ndarray:
    return np.array(values, np.float64)


def aggregate(case, server):
    return fedsim.aggregate(server, array(case["inputs"]["X"]), weights=case["inputs"].get("num_samples"))


def weighted_mean(case):
    yield "agg", aggregate(case, "mean")
    yield "uniform", aggregate(case, {"kind": "mean", "weights": "uniform"})


def coordinate_median(case):
    yield "agg", aggregate(case, "median")


def trimmed_mean(case):
    yield "agg", aggregate(case, {"kind": "trimmed_mean", "trim": case["params"]["f"]})


def krum(case):
    got = aggregate(case, {"kind": "krum", "f": case["params"]["f"]})
    yield "agg", got
    yield "index", int(np.argmin(np.abs(array(case["inputs"]["X"]) - got).sum(1)))


def multi_krum(case):
    yield "agg", aggregate(case, {"kind": "multi_krum", "f": case["params"]["f"], "select": case["params"]["m"]})


def rfa_smoothed_weiszfeld(case):
    p = case["params"]
    yield "agg", aggregate(case, {"kind": "rfa", "smoothing": p["nu"], "iterations": p["iters"]})


def geometric_median(case):
    yield "agg", aggregate(case, "geometric_median")
    yield "agg_weighted", aggregate(case, {"kind": "geometric_median", "weights": "samples"})


def centered_clipping(case):
    p, v0 = case["params"], array(case["inputs"]["v0"])
    link = {"kind": "centered_clipping", "radius": p["tau"], "iterations": p["L"]}
    yield "agg", fedsim.aggregate(link, array(case["inputs"]["X"]) - v0) + v0  # a fresh server's v is zero


def norm_bounding(case):
    clip = {"kind": "clip", "norm": case["params"]["c"]}
    yield "rows", fedsim.transmit(clip, array(case["inputs"]["X"]))[0]
    yield "agg_weighted", aggregate(case, [clip, "mean"])


def nnm(case):
    f = case["params"]["f"]
    mix = {"kind": "mix_neighbours", "f": f}
    yield "rows", fedsim.transmit(mix, array(case["inputs"]["X"]))[0]
    yield "then_trimmed_mean", aggregate(case, [mix, {"kind": "trimmed_mean", "trim": f}])


def sign_flip(case):
    H = array(case["inputs"]["H"])
    yield "per_row", fedsim.transmit("sign_flip", H, malicious=np.ones(len(H), bool))[0]


CALLS = [
    weighted_mean,
    coordinate_median,
    trimmed_mean,
    krum,
    multi_krum,
    rfa_smoothed_weiszfeld,
    geometric_median,
    centered_clipping,
    norm_bounding,
    nnm,
    sign_flip,
]
BY_NAME = {call.__name__: call for call in CALLS}
CASES = [case for case in (*oracle("robust_aggregators"), *oracle("attacks")) if case["fn"] in BY_NAME]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case):
    for key, got in BY_NAME[case["fn"]](case):
        np.testing.assert_allclose(got, case["expected"][key], rtol=case["rtol"], atol=case["atol"], err_msg=key)


def test_all_cases_are_there():
    assert len(CASES) == 8 * 17 + 2 * 51 + 5
    assert {case["fn"] for case in CASES} == set(BY_NAME)
