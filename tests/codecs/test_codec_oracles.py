"""Codecs and what they are made of, with given draws, against an independent reference."""

import functools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import WHOLE, oracle
from numpy.testing import assert_allclose

from fedsim.codecs.count_sketch import Hashes, estimate, sketch
from fedsim.codecs.drive import one_bit
from fedsim.codecs.drive import restored as from_one_bit
from fedsim.codecs.eden import nearest, restored
from fedsim.codecs.hadamard import padded, rotate, unrotate
from fedsim.codecs.lloyd_max import centroids, thresholds
from fedsim.codecs.low_rank import power_step
from fedsim.codecs.natural import to_powers_of_two
from fedsim.codecs.qsgd import quantised as to_levels
from fedsim.codecs.sizes import subset_bits
from fedsim.codecs.stochastic_quantise import quantised, values
from fedsim.codecs.terngrad import ternary
from fedsim.codecs.top_k import Sparse
from fedsim.compose import FAMILIES, max_bytes

CASES = oracle("compression")
LENGTH = 20  # no power of two
ALONE = {"k": 5, "s": 4, "levels": 4, "bits": 2}


def cases(fn: str) -> list[dict]:
    """The cases of a function; of vectors those of one length and parameter, which share programs.

    With FEDSIM_WHOLE=1, all of them.
    """
    return [case for case in CASES if case["fn"] == fn and (WHOLE or shares_programs(case))]


def shares_programs(case: dict) -> bool:
    x, params = case["inputs"].get("x"), case["params"]
    if x is None:
        return True
    return len(value(x)) == LENGTH and all(params.get(name, n) == n for name, n in ALONE.items())


def value(given) -> np.ndarray:
    """Numbers of a case."""
    return np.asarray(given["data"] if isinstance(given, dict) else given, np.float64)


def made(kind: str, **arguments):
    return FAMILIES["codec"][kind](**arguments)


levels_of = jax.jit(to_levels, static_argnums=2)


def by_qsgd(x, u, s=4):
    norm, levels = to_levels(x, u, s)
    return made("qsgd", levels=s).decode((norm[None], levels), len(x))


def by_levels(x, u, levels=4):
    return values(*quantised(x, u, levels), levels)


def by_terngrad(x, u):
    return made("terngrad").decode(ternary(x, u), len(x))


DRAWN = {
    "qsgd": by_qsgd,
    "uniform_sq": by_levels,
    "terngrad": by_terngrad,
    "natural": to_powers_of_two,
}


def variance(quantise, x) -> float:
    """E ‖C(x) − x‖² of numbers that become the one above or the one below: Σ (up − x)(x − down)."""
    up, down = (np.asarray(quantise(x, np.full(len(x), u))) for u in (0.0, 1 - 2.0**-53))
    high, low = np.maximum(up, down), np.minimum(up, down)
    return float(((high - x) * (x - low)).sum())


@functools.cache
def program(kind: str, **arguments):
    """Of a codec that draws nothing: a vector -> (what arrives, bits)."""
    codec = made(kind, **arguments)

    @jax.jit
    def through(x):
        payload, bits, _ = codec.encode(x, codec.memory(jnp.zeros(len(x))), None)
        return codec.decode(payload, len(x)), bits

    return through


def test_top_k():
    with jax.enable_x64(True):
        for case in cases("topk"):
            x, want = value(case["inputs"]["x"]), case["expected"]
            y, _ = program("top_k", k=case["params"]["k"])(x)
            assert np.flatnonzero(y).tolist() == [i for i in sorted(want["idx"]) if x[i]]
            assert_allclose(y, value(want["y"]), rtol=1e-12)


def test_rand_k():
    with jax.enable_x64(True):
        for case in cases("randk"):
            x, places = value(case["inputs"]["x"]), value(case["inputs"]["idx"]).astype(int)
            decode = jax.jit(made("rand_k", k=case["params"]["k"]).decode, static_argnums=1)
            y = decode(Sparse(x[places], places), len(x))
            assert_allclose(y, value(case["expected"]["y"]), rtol=1e-12)


@pytest.mark.parametrize("kind", ["topk", "sign_scaled"])
def test_error_feedback(kind):
    with jax.enable_x64(True):
        found = [case for case in cases("ef14") if case["params"]["compressor"] == kind]
        for case in found if WHOLE else found[-1:]:
            inner = made("top_k", k=case["params"]["k"]) if kind == "topk" else made("sign")
            codec, want = made("error_feedback", codec=inner), case["expected"]
            grads = case["params"]["lr"] * value(case["inputs"]["grads"])
            memory = codec.memory(jnp.zeros(grads.shape[1]))
            encode, decode = jax.jit(codec.encode), jax.jit(codec.decode, static_argnums=1)
            sent, kept_ = value(want["sent"]), value(want["memory"])
            for g, arrives, kept in zip(grads, sent, kept_, strict=True):
                payload, _, memory = encode(jnp.asarray(g), memory, None)
                assert_allclose(decode(payload, len(g)), arrives, rtol=1e-9, atol=1e-12)
                assert_allclose(memory["error"], kept, rtol=1e-9, atol=1e-12)


def test_a_sketch_and_sums_of_it():
    made_of, near = jax.jit(sketch, static_argnums=2), {"rtol": 1e-12, "atol": 1e-15}
    with jax.enable_x64(True):
        for case in cases("count_sketch"):
            x, column, sign = (value(case["inputs"][name]) for name in ("x", "h", "s"))
            hashes = Hashes(jnp.asarray(column, jnp.int32), jnp.asarray(sign))
            table = made_of(jnp.asarray(x), hashes, case["params"]["cols"])
            twice = made_of(jnp.asarray(2 * x), hashes, table.shape[1])
            estimated = jax.jit(estimate)(table, hashes)
            assert_allclose(table, value(case["expected"]["table"]), **near)
            assert_allclose(estimated, value(case["expected"]["estimate"]), **near)
            assert_allclose(table + twice, 3 * table, **near)
            codec = made("count_sketch", rows=table.shape[0], columns=table.shape[1])
            assert max_bytes(codec, x) == case["expected"]["bits"] // 8


@functools.cache
def quantiser(fn: str, **params):
    return jax.jit(partial(DRAWN[fn], **params))


@pytest.mark.parametrize("fn", ["qsgd", "uniform_sq", "terngrad"])
def test_a_quantiser_with_its_draws(fn):
    with jax.enable_x64(True):
        for case in cases(fn):
            x, u = (jnp.asarray(case["inputs"][name], float) for name in ("x", "u"))
            want = case["expected"]
            quantise = quantiser(fn, **case["params"])
            arrives = quantise(x, u)
            assert_allclose(arrives, want["y"], rtol=1e-12, atol=1e-12, err_msg=case["name"])
            exact = variance(quantise, x)
            assert_allclose(exact, want["exact_variance"], rtol=1e-10, atol=1e-12)
            for name in [name for name in want if "bound" in name and "nnz" not in name]:
                assert exact <= want[name] * (1 + 1e-12)
            if fn == "qsgd":
                norm, levels = levels_of(x, u, case["params"]["s"])
                assert_allclose(norm, want["norm"], rtol=1e-12)
                assert np.abs(levels).tolist() == want["levels"]


def test_natural_compression_takes_the_power_above_or_below():
    powers = jax.jit(to_powers_of_two)
    least, most = 2.0**-126, 2.0**127
    x = jnp.asarray([3.0, -3.0, 1.0, -0.75, 0.0, least, least / 2, -3e38], jnp.float32)
    at = lambda u: powers(x, np.full(len(x), u, np.float32)).tolist()
    assert at(1 - 2.0**-24) == [2, -2, 1, -0.5, 0, least, 0, -most]
    assert at(0.0) == [4, -4, 1, -1, 0, least, 0, -most]
    assert (at(0.49)[0], at(0.51)[0]) == (4, 2)  # 3 is in the middle
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=200))
        assert variance(powers, x) <= float((x**2).sum()) / 8


def test_the_scaled_sign():
    with jax.enable_x64(True):
        for case in cases("sign_scaled"):
            x, want = value(case["inputs"]["x"]), case["expected"]
            arrives, bits = program("sign")(x)
            assert_allclose(arrives, want["y"], rtol=1e-12)
            assert bits == len(x) + 32
        plain, bits = program("sign", scale=False)(jnp.asarray([-3.0, 0.0, -0.0, 1e-9]))
        assert plain.tolist() == [-1, 1, 1, 1] and bits == 4


def test_a_rotation_and_back():
    there, and_back = jax.jit(rotate), jax.jit(unrotate, static_argnums=2)
    with jax.enable_x64(True):
        for case in cases("rht"):
            x, s = (jnp.asarray(case["inputs"][name], float) for name in ("x", "signs"))
            assert len(s) == padded(len(x)) == case["params"]["padded"]
            y = there(x, s)
            assert_allclose(y, case["expected"]["y"], rtol=1e-12, atol=1e-14)
            assert_allclose(np.linalg.norm(y), case["expected"]["norm_preserved"], rtol=1e-12)
            back = and_back(y, s, len(x))
            assert_allclose(back, x, atol=1e-14)


def test_drive():
    encode, decode = jax.jit(one_bit, static_argnums=2), jax.jit(from_one_bit, static_argnums=3)
    with jax.enable_x64(True):
        for case in cases("drive"):
            x, s = (jnp.asarray(case["inputs"][name], float) for name in ("x", "signs"))
            want = case["expected"]
            for biased, scale, arrives in (
                (True, "S_biased", "biased"),
                (False, "S_unbiased", "unbiased_scale"),
            ):
                S, positive = encode(x, s, biased)
                assert_allclose(S, want[scale], rtol=1e-12)
                y = decode(S, positive, s, len(x))
                assert_allclose(y, want[arrives], rtol=1e-12, atol=1e-12, err_msg=case["name"])


def test_eden():
    encode = jax.jit(nearest, static_argnums=2)
    decode = jax.jit(restored, static_argnums=(3, 4))
    with jax.enable_x64(True):
        for case in cases("eden"):
            x, s = (jnp.asarray(case["inputs"][name], float) for name in ("x", "signs"))
            bits, want = case["params"]["bits"], case["expected"]
            scale, levels = encode(x, s, bits)
            assert levels.tolist() == want["levels"]
            assert_allclose(scale, want["scale"], rtol=1e-12)
            y = decode(scale, levels, s, bits, len(x))
            assert_allclose(y, want["y"], rtol=1e-12, atol=1e-12)
            assert max_bytes(made("eden", bits=bits), x) == -(-want["message_bits"] // 8)


OF_EDEN = [0.57080, 0.13312, 0.03578, 0.00959, 0.00251, 0.00064]
"""The paper's errors of messages with 1 to 6 bits a number."""


def test_values_for_normal_numbers_are_those_of_lloyd_and_max():
    (case,) = cases("lloyd_max")
    for row in case["expected"]["table"]:
        c, t = (np.array(f(row["bits"])) for f in (centroids, thresholds))
        assert_allclose(c[len(c) // 2 :], row["centroids_positive"], rtol=2e-12)
        assert_allclose(c, -c[::-1], rtol=0, atol=0)
        shares = np.diff([0, *(0.5 * math.erfc(-x / math.sqrt(2)) for x in t), 1])
        distortion = 1 - (shares * c**2).sum()  # of values that are means
        assert_allclose(distortion, row["lloyd_max_distortion"], rtol=1e-9)
        if row["bits"] <= 6:
            assert round(1 / (1 - distortion) - 1, 5) == OF_EDEN[row["bits"] - 1]
        assert_allclose(1 / (1 - distortion) - 1, row["eden_vnmse_unbiased_limit"], rtol=1e-9)


def test_a_power_step_of_low_rank():
    with jax.enable_x64(True):
        for case in cases("powersgd"):
            M, Q = value(case["inputs"]["M"]), value(case["inputs"]["Q0"])
            P, Q = map(np.asarray, jax.jit(power_step)(M, Q))
            want = value(case["expected"]["approx"])
            assert_allclose(P @ Q.T, want, rtol=1e-12, atol=1e-12)
            assert 32 * (P.size + Q.size) == case["expected"]["bits"]


ROTATED = {"levels": 16, "rotate": True}
SIZED = {
    "fp16": ("cast", {}),
    "sign": ("sign", {"scale": False}),
    "ef_sign_scaled": ("sign", {}),
    "terngrad_2bit": ("terngrad", {}),
    "drive_1bit": ("drive", {}),
    **{f"qsgd_s{s}_fixed_width": ("qsgd", {"levels": s}) for s in (1, 64)},
    **{f"uniform_sq_k{k}": ("stochastic_quantise", {"levels": k}) for k in (2, 256)},
    "rotated_uniform_sq_k16": ("stochastic_quantise", ROTATED),
    **{f"eden_{b}bit": ("eden", {"bits": b}) for b in (1, 3)},
}
"""Names of sizes in the reference, and the codecs that they are of; beside top-k and random-k."""


def test_sizes():
    (case,) = cases("bits")
    for d in ("5", "7850") if WHOLE else ("5",):
        bits = case["expected"][d]
        row = jax.ShapeDtypeStruct((int(d),), np.float32)
        size = lambda kind, arguments, row=row: max_bytes(made(kind, **arguments), row)
        for name, codec in SIZED.items():
            assert size(*codec) == -(-bits[name] // 8), name
        for name in [name for name in bits if name.startswith(("topk", "randk")) and bits[name]]:
            codec, count, *rest = name.split("_")
            k = int(count[1:])
            if rest == ["entropy", "index"]:
                assert 32 * k + subset_bits(int(d), k) == bits[name]
            else:
                kind = {"topk": "top_k", "randk": "rand_k"}[codec]
                assert size(kind, {"k": k}) == -(-bits[name] // 8)
        assert size("natural", {}) == -(-9 * int(d) // 8)
        buckets = -(-int(d) // 3)
        assert size("qsgd", {"levels": 4, "bucket": 3}) == -(-(buckets * 32 + 4 * int(d)) // 8)
