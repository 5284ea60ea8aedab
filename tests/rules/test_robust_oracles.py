"""Aggregates, stages and attacks against an independent reference, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import oracle

import fedsim
from fedsim.rules.divide_and_conquer import never_bad
from fedsim.rules.flame import clipped_mean, median_length
from fedsim.rules.foolsgold import trusts
from fedsim.stages.bucket import bucketed

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def array(values) -> np.ndarray:
    return np.array(values, np.float64)


ROOM = (47, 50)  # rows and columns that hold every matrix


def aggregate(case, server, X=None, **rows):
    """The matrix among absent rows and columns of zeros, so that all matrices share a program."""
    X, weights = array(case["inputs"]["X"]) if X is None else X, case["inputs"].get("num_samples")
    K, D = X.shape
    stack, w = np.zeros(ROOM), np.zeros(ROOM[0])
    stack[:K, :D], w[:K] = X, 1.0 if weights is None else weights
    known = {
        name: row if callable(row) else np.pad(row, (0, ROOM[1] - D)) for name, row in rows.items()
    }
    return fedsim.aggregate(server, stack, weights=w, **known)[:D]


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
    yield (
        "agg",
        aggregate(
            case, {"kind": "multi_krum", "f": case["params"]["f"], "select": case["params"]["m"]}
        ),
    )


def rfa_smoothed_weiszfeld(case):
    p = case["params"]
    yield "agg", aggregate(case, {"kind": "rfa", "smoothing": p["nu"], "iterations": p["iters"]})


def geometric_median(case):
    yield "agg", aggregate(case, "geometric_median")
    yield "agg_weighted", aggregate(case, {"kind": "geometric_median", "weights": "samples"})


def centered_clipping(case):
    p, v0 = case["params"], array(case["inputs"]["v0"])
    link = {"kind": "centered_clipping", "radius": p["tau"], "iterations": p["L"]}
    yield (
        "agg",
        fedsim.aggregate(link, array(case["inputs"]["X"]) - v0) + v0,
    )  # a fresh server's v is zero


def norm_bounding(case):
    clip = {"kind": "clip", "norm": case["params"]["c"]}
    yield "rows", fedsim.transmit(clip, array(case["inputs"]["X"]))[0]
    yield "agg_weighted", aggregate(case, [clip, "mean"])


def nnm(case):
    f = case["params"]["f"]
    mix = {"kind": "mix_neighbours", "f": f}
    yield "rows", fedsim.transmit(mix, array(case["inputs"]["X"]))[0]
    yield "then_trimmed_mean", aggregate(case, [mix, {"kind": "trimmed_mean", "trim": f}])


def with_f(kind):
    """Of a rule that knows nothing but f."""
    return lambda case: [("agg", aggregate(case, {"kind": kind, "f": case["params"]["f"]}))]


def sign_majority(case):
    yield "agg", aggregate(case, "sign_majority")


def dnc(case):
    X, p = jnp.asarray(array(case["inputs"]["X"])), case["params"]
    chosen = jnp.asarray(case["inputs"]["subsets"], int)
    kept = never_bad(X, jnp.ones(len(X), bool), chosen, int(p["c"] * p["f"]))
    yield "kept", np.flatnonzero(kept)
    yield "agg", X[np.asarray(kept)].mean(0)


def arc(case):
    yield (
        "rows",
        fedsim.transmit(
            {"kind": "adaptive_robust_clip", "f": case["params"]["f"]}, array(case["inputs"]["X"])
        )[0],
    )


def bucketing(case):
    X = jnp.asarray(array(case["inputs"]["X"]))
    order = jnp.asarray(case["inputs"]["perm"], jnp.int32)
    rows, left = bucketed(X, jnp.ones(len(X), bool), order, case["params"]["s"])
    yield "rows", rows[np.asarray(left)]


def foolsgold(case):
    X = jnp.asarray(array(case["inputs"]["X"]))
    alpha = trusts(
        jnp.asarray(array(case["inputs"]["H"])), jnp.ones(len(X), bool), case["params"]["kappa"]
    )
    yield "alpha", alpha
    yield "agg", alpha @ X


def flame_clip_mean(case):
    X = jnp.asarray(array(case["inputs"]["X"]))
    admitted = jnp.isin(jnp.arange(len(X)), jnp.asarray(case["params"]["admitted"]))
    lengths = jnp.linalg.norm(X, axis=1)
    bound = median_length(lengths, jnp.ones(len(X), bool))
    yield "agg", clipped_mean(X, lengths, bound, admitted)
    yield "S", bound


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
    yield (
        "vec",
        attacked(
            array(case["inputs"]["H"]), {"kind": "inner_product", "epsilon": case["params"]["eps"]}
        ),
    )


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
    sign_majority,
    dnc,
    arc,
    bucketing,
    foolsgold,
    flame_clip_mean,
    fltrust,
    zeno,
    sign_flip,
    alie,
    ipm,
    model_replacement,
]
BY_NAME = {call.__name__: call for call in CALLS} | {
    "meamed": with_f("mean_around_median"),
    "bulyan": with_f("bulyan"),
    "mda": with_f("minimum_diameter"),
    "smea": with_f("smallest_eigenvalue"),
    "caf_exact_eig": with_f("covariance_filter"),
    "min_max": distant("min_max"),
    "min_sum": distant("min_sum"),
}
CASES = [
    case for case in (*oracle("robust_aggregators"), *oracle("attacks")) if case["fn"] in BY_NAME
]


AT_ONCE = (
    *("norm_bounding", "nnm", "arc", "bucketing", "sign_flip", "alie", "ipm", "min_max"),
    *("min_sum", "model_replacement", "coordinate_median", "trimmed_mean", "krum"),
)
"""Functions with a case in the fast part; that has a reference of every rule."""
FIRST = [next(case["name"] for case in CASES if case["fn"] == fn) for fn in AT_ONCE]
PLAYED = [
    case if case["name"] in FIRST else pytest.param(case, marks=pytest.mark.long) for case in CASES
]


@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case["name"])
def test_case(case):
    with jax.enable_x64(True):
        for key, got in BY_NAME[case["fn"]](case):
            np.testing.assert_allclose(
                got, case["expected"][key], rtol=case["rtol"], atol=case["atol"], err_msg=key
            )


def test_all_cases_are_there():
    assert len(CASES) == 12 * 17 + 2 * 51 + 9 + 3 * 14 + 16 + 13 + 17 + 34 + 17 + 12 * 5
    assert {case["fn"] for case in CASES} == set(BY_NAME)
