"""Aggregates, stages and attacks against an independent reference, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import WHOLE, oracle

import fedsim
from fedsim.rules.divide_and_conquer import never_bad
from fedsim.stages.bucket import bucketed


def array(values) -> np.ndarray:
    return np.array(values, np.float64)


ROOM = (47, 50)  # rows and columns that hold every matrix


def aggregate(case, server, X=None, **rows):
    """The matrix; among absent rows and columns of zeros where all are played by one program."""
    X, weights = array(case["inputs"]["X"]) if X is None else X, case["inputs"].get("num_samples")
    K, D = X.shape
    room = ROOM if WHOLE else (min(K + 1, ROOM[0]), D)
    stack, w = np.zeros(room), np.zeros(room[0])
    stack[:K, :D], w[:K] = X, 1.0 if weights is None else weights
    wide = lambda row: row if callable(row) else np.pad(row, (0, room[1] - D))
    known = {name: wide(row) for name, row in rows.items()}
    return fedsim.aggregate(server, stack, weights=w, **known)[:D]


AGGREGATES = {
    "weighted_mean": lambda p: {"agg": "mean", "uniform": {"kind": "mean", "weights": "uniform"}},
    "coordinate_median": lambda p: {"agg": "median"},
    "sign_majority": lambda p: {"agg": "sign_majority"},
    "trimmed_mean": lambda p: {"agg": {"kind": "trimmed_mean", "trim": p["f"]}},
    "multi_krum": lambda p: {"agg": {"kind": "multi_krum", "f": p["f"], "select": p["m"]}},
    "rfa_smoothed_weiszfeld": lambda p: {
        "agg": {"kind": "rfa", "smoothing": p["nu"], "iterations": p["iters"]}
    },
    "geometric_median": lambda p: {
        "agg": "geometric_median",
        "agg_weighted": {"kind": "geometric_median", "weights": "samples"},
    },
    "norm_bounding": lambda p: {"agg_weighted": [{"kind": "clip", "norm": p["c"]}, "mean"]},
    "nnm": lambda p: {
        "then_trimmed_mean": [
            {"kind": "mix_neighbours", "f": p["f"]},
            {"kind": "trimmed_mean", "trim": p["f"]},
        ]
    },
    "meamed": lambda p: {"agg": {"kind": "mean_around_median", "f": p["f"]}},
    "bulyan": lambda p: {"agg": {"kind": "bulyan", "f": p["f"]}},
    "mda": lambda p: {"agg": {"kind": "minimum_diameter", "f": p["f"]}},
    "smea": lambda p: {"agg": {"kind": "smallest_eigenvalue", "f": p["f"]}},
    "caf_exact_eig": lambda p: {"agg": {"kind": "covariance_filter", "f": p["f"]}},
}
"""The server's links for every number of a case, by its parameters."""
ROWS = {
    "norm_bounding": lambda p: {"kind": "clip", "norm": p["c"]},
    "nnm": lambda p: {"kind": "mix_neighbours", "f": p["f"]},
    "arc": lambda p: {"kind": "adaptive_robust_clip", "f": p["f"]},
}
"""Links whose rows a case has."""


def krum(case):
    got = aggregate(case, {"kind": "krum", "f": case["params"]["f"]})
    yield "agg", got
    yield "index", int(np.argmin(np.abs(array(case["inputs"]["X"]) - got).sum(1)))


def centered_clipping(case):
    p, v0 = case["params"], array(case["inputs"]["v0"])
    link = {"kind": "centered_clipping", "radius": p["tau"], "iterations": p["L"]}
    # a fresh server's v is zero
    yield "agg", fedsim.aggregate(link, array(case["inputs"]["X"]) - v0) + v0


def dnc(case):
    X, p = jnp.asarray(array(case["inputs"]["X"])), case["params"]
    chosen = jnp.asarray(case["inputs"]["subsets"], int)
    kept = never_bad(X, jnp.ones(len(X), bool), chosen, int(p["c"] * p["f"]))
    yield "kept", np.flatnonzero(kept)
    yield "agg", X[np.asarray(kept)].mean(0)


def bucketing(case):
    X = jnp.asarray(array(case["inputs"]["X"]))
    order = jnp.asarray(case["inputs"]["perm"], jnp.int32)
    buckets = jax.jit(bucketed, static_argnums=3)
    rows, left = buckets(X, jnp.ones(len(X), bool), order, case["params"]["s"])
    yield "rows", rows[np.asarray(left)]


def fltrust(case):
    from fedsim.fields.server_samples.trust import against

    X, g0 = (array(case["inputs"][name]) for name in ("X", "g0"))
    yield "agg", aggregate(case, "trust", reference=g0)
    yield "trust", np.maximum(against(jnp.asarray(X), jnp.asarray(g0))[1], 0)


def half_square(x):
    return 0.5 * jnp.sum(x * x)


def zeno(case):
    from fedsim.fields.server_samples.zeno import descents

    """Of updates u = −γ X, seen from t."""
    inputs, p = case["inputs"], case["params"]
    u, x = -p["gamma"] * array(inputs["X"]), array(inputs["x0"]) - array(inputs["t"])
    rho = p["rho"] / p["gamma"] ** 2
    link = {"kind": "zeno", "f": p["b"], "rho": rho}
    yield "agg", aggregate(case, link, u, params=x, server_loss=half_square) / -p["gamma"]
    scores = np.asarray(descents(jnp.asarray(u), jnp.asarray(x), half_square, rho))
    yield "scores", scores
    yield "kept", np.sort(np.argsort(-scores, kind="stable")[: len(u) - p["b"]])


def sign_flip(case):
    H = array(case["inputs"]["H"])
    yield "per_row", fedsim.transmit("sign_flip", H, malicious=np.ones(len(H), bool))[0]


def attacked(H, link, f=2):
    """What malicious clients send beside honest ones with updates H."""
    stack = np.concatenate([H, np.ones((f, H.shape[1]))])
    return fedsim.transmit(link, stack, malicious=np.arange(len(H), len(stack)))[0][-1]


def alie(case):
    H, f = array(case["inputs"]["H"]), case["params"]["f"]
    link = lambda **more: {"kind": "little_is_enough", **more}
    yield "minus_ddof1", attacked(H, link(), f)
    yield "plus_ddof1", attacked(H, link(sign="plus"), f)
    yield "minus_ddof0", attacked(H, link(ddof=0), f)


def ipm(case):
    link = {"kind": "inner_product", "epsilon": case["params"]["eps"]}
    yield "vec", attacked(array(case["inputs"]["H"]), link)


def distant(kind):
    """Of min-max and min-sum, whose direction the case names."""

    def call(case):
        direction = {"unit_vec": "unit"}.get(name := case["params"]["perturbation"], name)
        yield "vec", attacked(array(case["inputs"]["H"]), {"kind": kind, "direction": direction})

    return call


def model_replacement(case):
    x, own = (array(case["inputs"][name]) for name in ("x_global", "x_malicious"))
    boost = case["params"]["n"] / case["params"]["eta"]
    link = {"kind": "model_replacement", "boost": boost}
    sent = fedsim.transmit(link, (own - x)[None], malicious=[0])[0][0]
    yield "sent_update", sent
    yield "sent_model", x + sent


CALLS = (krum, centered_clipping, dnc, bucketing, fltrust, zeno, sign_flip, alie, ipm)
BY_NAME = {call.__name__: call for call in (*CALLS, model_replacement)}
BY_NAME |= {"min_max": distant("min_max"), "min_sum": distant("min_sum")}


def results(case):
    """(The name of an expected value, what fedsim makes of the case)."""
    fn, params = case["fn"], case["params"]
    if fn in BY_NAME:
        yield from BY_NAME[fn](case)
    for key, server in AGGREGATES[fn](params).items() if fn in AGGREGATES else ():
        yield key, aggregate(case, server)
    if fn in ROWS:
        yield "rows", fedsim.transmit(ROWS[fn](params), array(case["inputs"]["X"]))[0]


FUNCTIONS = {*BY_NAME, *AGGREGATES, *ROWS}
ALL = (*oracle("robust_aggregators"), *oracle("attacks"))
CASES = [case for case in ALL if case["fn"] in FUNCTIONS]
AT_ONCE = ("arc", "alie", "ipm")
"""Those without another reference in the fast part."""
FIRST = [next(case["name"] for case in CASES if case["fn"] == fn) for fn in AT_ONCE]
PLAYED = [
    case if case["name"] in FIRST else pytest.param(case, marks=pytest.mark.long) for case in CASES
]


@pytest.mark.share(100)
@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case["name"])
def test_case(case):
    with jax.enable_x64(True):
        for key, got in results(case):
            np.testing.assert_allclose(
                got, case["expected"][key], rtol=case["rtol"], atol=case["atol"], err_msg=key
            )


def test_all_cases_are_there():
    assert len(CASES) == 483
    assert {case["fn"] for case in CASES} == FUNCTIONS
