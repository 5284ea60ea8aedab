"""Quantisers: oracle cases with given draws, moments, lengths of codes, extremes, runs."""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import if_whole, oracle
from federations import quadratic
from numpy.testing import assert_allclose, assert_array_equal
from reference.scenarios import consecutive

import fedsim
from fedsim.codecs.entropy import arithmetic_bits, dense_bits, gaps_bits, omega_bits
from fedsim.codecs.natural import to_powers_of_two
from fedsim.codecs.qsgd import quantised as to_levels
from fedsim.codecs.scaling import unit
from fedsim.codecs.stochastic_quantise import quantised, values
from fedsim.codecs.terngrad import ternary
from fedsim.compose import FAMILIES, max_bytes
from fedsim.disk.tables import to_csv
from fedsim.runs.result import TABLE_COLUMNS

pytestmark = pytest.mark.usefixtures("quickly_compiled")

CASES = oracle("compression")


def cases(fn: str) -> list[dict]:
    return [case for case in CASES if case["fn"] == fn]


def made(kind: str, **arguments):
    return FAMILIES["codec"][kind](**arguments)


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


def variance(quantise, x, **params) -> float:
    """E ‖C(x) − x‖² of numbers that become the one above or the one below: Σ (up − x)(x − down)."""
    up, down = (quantise(x, jnp.full(len(x), u), **params) for u in (0.0, 1 - 2.0**-53))
    high, low = jnp.maximum(up, down), jnp.minimum(up, down)
    return float(((high - x) * (x - low)).sum())


@pytest.mark.long
@pytest.mark.parametrize("fn", ["qsgd", "uniform_sq", "terngrad"])
def test_with_its_draws_a_quantiser_is_that_of_its_oracle(fn):
    with jax.enable_x64(True):
        for case in cases(fn):
            x, u = (jnp.asarray(case["inputs"][name], float) for name in ("x", "u"))
            want = case["expected"]
            arrives = DRAWN[fn](x, u, **case["params"])
            assert_allclose(arrives, want["y"], rtol=1e-12, atol=1e-12, err_msg=case["name"])
            exact = variance(DRAWN[fn], x, **case["params"])
            assert_allclose(
                exact, want["exact_variance"], rtol=1e-10, atol=1e-12, err_msg=case["name"]
            )
            for name in [name for name in want if "bound" in name and "nnz" not in name]:
                assert exact <= want[name] * (1 + 1e-12)
            if fn == "qsgd":
                norm, levels = to_levels(x, u, case["params"]["s"])
                assert_allclose(norm, want["norm"], rtol=1e-12)
                assert np.abs(levels).tolist() == want["levels"]


@pytest.mark.long
def test_numbers_that_are_levels_arrive_as_they_are():
    with jax.enable_x64(True):
        x, codec = jnp.tile(jnp.arange(4.0), 8), made("stochastic_quantise", levels=4)
        payload, _, _ = codec.encode(x, (), jax.random.key(0))
        assert_allclose(codec.decode(payload, len(x)), x, rtol=1e-12)


@pytest.mark.long
def test_the_scaled_sign_is_that_of_its_oracle():
    with jax.enable_x64(True):
        codec = made("sign")
        for case in cases("sign_scaled"):
            x = jnp.asarray(case["inputs"]["x"], float)
            payload, bits, _ = codec.encode(x, (), None)
            arrives = codec.decode(payload, len(x))
            assert_allclose(arrives, case["expected"]["y"], rtol=1e-12)
            assert bits == len(x) + 32
            assert_allclose(((arrives - x) ** 2).sum(), case["expected"]["err2"], rtol=1e-10)
        plain = made("sign", scale=False)
        payload, bits, _ = plain.encode(jnp.asarray([-3.0, 0.0, -0.0, 1e-9]), (), None)
        assert plain.decode(payload, 4).tolist() == [-1, 1, 1, 1] and bits == 4


def test_the_sign_under_error_feedback_is_that_of_its_oracle():
    with jax.enable_x64(True):
        for case in [
            case for case in cases("ef14") if case["params"]["compressor"] == "sign_scaled"
        ]:
            grads, want = np.asarray(case["inputs"]["grads"]), case["expected"]
            codec = made("error_feedback", codec=made("sign"))
            memory = codec.memory(jnp.zeros(grads.shape[1]))
            for g, sent, kept in zip(grads, want["sent"], want["memory"], strict=True):
                payload, _, memory = codec.encode(
                    jnp.asarray(case["params"]["lr"] * g), memory, None
                )
                assert_allclose(codec.decode(payload, len(g)), sent, rtol=1e-9, atol=1e-12)
                assert_allclose(memory["error"], kept, rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_natural_compression_takes_the_power_above_or_below():
    x = jnp.asarray([3.0, -3.0, 1.0, -0.75, 0.0, 2.0**-126, 2.0**-127, -3e38], jnp.float32)
    down, up = (
        to_powers_of_two(x, jnp.full(len(x), u, jnp.float32)).tolist() for u in (1 - 2.0**-24, 0.0)
    )
    assert down == [2, -2, 1, -0.5, 0, 2.0**-126, 0, -(2.0**127)] and up == [
        4,
        -4,
        1,
        -1,
        0,
        2.0**-126,
        0,
        -(2.0**127),
    ]
    threshold = jnp.asarray([0.49, 0.51], jnp.float32)  # 3 is in the middle of 2 and 4
    assert to_powers_of_two(jnp.full(2, 3.0), threshold).tolist() == [4, 2]
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=200))
        assert variance(to_powers_of_two, x) <= float((x**2).sum()) / 8


@pytest.mark.long
def test_bits_are_those_of_the_papers():
    (case,) = cases("bits")
    for d, bits in case["expected"].items():
        row = jax.ShapeDtypeStruct((int(d),), np.float32)
        size = lambda kind, **arguments: max_bytes(made(kind, **arguments), row)
        sizes = {f"qsgd_s{s}_fixed_width": size("qsgd", levels=s) for s in (1, 4, 16, 64)}
        sizes |= {
            f"uniform_sq_k{k}": size("stochastic_quantise", levels=k) for k in (2, 4, 16, 256)
        }
        sizes |= {
            f"rotated_uniform_sq_k{k}": size("stochastic_quantise", levels=k, rotate=True)
            for k in (2, 4, 16, 256)
        }
        sizes |= {f"eden_{b}bit": size("eden", bits=b) for b in (1, 2, 3, 4)}
        sizes |= {
            "sign": size("sign", scale=False),
            "ef_sign_scaled": size("sign"),
            "terngrad_2bit": size("terngrad"),
        }
        sizes |= {"drive_1bit": size("drive")}
        assert sizes == {name: -(-bits[name] // 8) for name in sizes}
        assert size("natural") == -(-9 * int(d) // 8)
        assert size("qsgd", levels=4, bucket=3) == -(-(-(-int(d) // 3) * 32 + 4 * int(d)) // 8)


def omega(k: int) -> str:
    """The Elias ω code of k ≥ 1."""
    code = "0"
    while k > 1:
        code, k = f"{k:b}" + code, k.bit_length() - 1
    return code


@pytest.mark.long
def test_codes_are_as_long_as_their_digits():
    (case,) = cases("elias_omega_len")
    assert omega_bits(jnp.asarray(case["inputs"]["k"])).tolist() == case["expected"]["len"]
    large = [*range(1, 300), 65535, 65536, 2**30, 2**31 - 1]
    assert omega_bits(jnp.asarray(large)).tolist() == [len(omega(k)) for k in large]
    rng = np.random.default_rng(0)
    for levels in (
        rng.integers(-3, 4, 200),
        (rng.random(200) < 0.05) * rng.integers(-9, 9, 200),
        np.zeros(200, int),
    ):
        places = np.flatnonzero(levels)
        gaps = np.diff(places, prepend=-1)
        sparse = "".join(
            omega(int(gap)) + "s" + omega(abs(int(levels[i])))
            for gap, i in zip(gaps, places, strict=True)
        )
        dense = "".join(omega(abs(int(level)) + 1) + "s" * int(level != 0) for level in levels)
        assert (gaps_bits(jnp.asarray(levels)), dense_bits(jnp.asarray(levels))) == (
            len(sparse),
            len(dense),
        )


@pytest.mark.long
def test_arithmetic_codes_take_the_empirical_entropy():
    symbols = np.random.default_rng(1).choice(4, 500, p=[0.7, 0.2, 0.1, 0.0])
    counts = [np.sum(symbols == r) for r in range(3)]
    entropy = -sum(n * math.log2(n / 500) for n in counts) + math.log2(math.comb(503, 3))
    assert_allclose(arithmetic_bits(jnp.asarray(symbols), 4), entropy, rtol=1e-5)
    assert_allclose(
        arithmetic_bits(jnp.zeros(500, jnp.int32), 3), math.log2(math.comb(502, 2)), rtol=1e-5
    )


def coded(kind: str, x, n: int, **arguments) -> np.ndarray:
    """Bits of n messages behind their entropy code."""
    codec = made(kind, entropy=True, **arguments)
    one = lambda key: codec.entropy(codec.encode(x, (), key)[0], len(x))
    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), n)))


@pytest.mark.long
@pytest.mark.parametrize("s", [1, 4, 16])
def test_elias_codes_are_below_the_bound_of_the_theorem(s):
    (case,) = cases("bits")
    x = jax.random.normal(jax.random.key(1), (1000,))
    bits = coded("qsgd", x, 100, levels=s)
    assert 32 < bits.mean() < case["expected"]["1000"][f"qsgd_s{s}_elias_bound_thm3.2"]
    assert coded("qsgd", jnp.zeros(1000), 1, levels=s) == 32


@pytest.mark.long
def test_entropy_codes_are_below_the_plain_ones_where_levels_are_uneven():
    x = jax.random.normal(jax.random.key(1), (1000,))
    histogram = math.log2(math.comb(1002, 2))
    assert (coded("terngrad", x, 20) <= 1000 * math.log2(3) + 32 + histogram).all()
    assert (coded("stochastic_quantise", x, 20, levels=16) < 1000 * 3.6 + 64).all()
    assert (
        coded("qsgd", x, 20, levels=40) < 1000 * 7 + 32
    ).all()  # 40² > 500: every level is coded


LINKS = [
    {"kind": "qsgd", "levels": 3},
    {"kind": "qsgd", "levels": 3, "bucket": 4},
    {"kind": "stochastic_quantise", "levels": 5},
    {"kind": "stochastic_quantise", "levels": 5, "rotate": True},
    {"kind": "terngrad"},
    {"kind": "natural"},
    {"kind": "sign"},
    {"kind": "drive"},
    {"kind": "drive", "biased": True},
    {"kind": "eden", "bits": 3},
]
UNBIASED = LINKS[:6]
names = lambda link: "-".join(str(v) for v in link.values())


@pytest.mark.long
@pytest.mark.parametrize("link", UNBIASED, ids=names)
def test_drawn_messages_are_right_on_average(link):
    """The mean is within 5 σ in every coordinate, and so is the mean squared error."""
    d, n = 11, 20000
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(5).normal(size=d))
        codec = made(link["kind"], **{k: v for k, v in link.items() if k != "kind"})
        one = lambda key: codec.decode(codec.encode(x, (), key)[0], d)
        arrived = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), n)))
        error = arrived.std(axis=0) / math.sqrt(n)
        assert (np.abs(arrived.mean(axis=0) - x) < 5 * error + 1e-12).all() and (error > 0).any()
        exact = {
            "qsgd": lambda: variance(by_qsgd, x, s=3),
            "terngrad": lambda: variance(by_terngrad, x),
        }
        exact |= {"stochastic_quantise": lambda: variance(by_levels, x, levels=5)}
        exact |= {"natural": lambda: variance(to_powers_of_two, x)}
        squares = ((arrived - x) ** 2).sum(axis=1)
        if not link.keys() & {"bucket", "rotate"}:
            assert abs(squares.mean() - exact[link["kind"]]()) < 5 * squares.std() / math.sqrt(n)


@if_whole
@pytest.mark.long
def test_more_levels_come_to_the_message_itself():
    rows = np.random.default_rng(2).normal(size=(20, 37))
    for kind in ("qsgd", "stochastic_quantise"):
        error = [
            np.abs(fedsim.transmit({"kind": kind, "levels": s}, rows)[0] - rows).max()
            for s in (4, 64, 1024, 65536)
        ]
        assert all(a > 8 * b for a, b in pairwise(error)) and error[-1] < 1e-3


@pytest.mark.long
def test_a_bucket_is_a_message_of_its_own():
    x, u = (np.random.default_rng(s).random(11) - 0.5 * (s == 0) for s in (0, 1))
    with jax.enable_x64(True):
        codec, key = made("qsgd", levels=4, bucket=4), jax.random.key(3)
        u = jax.random.uniform(key, (11,), float)
        parts = [by_qsgd(jnp.asarray(x[i : i + 4]), u[i : i + 4]) for i in (0, 4, 8)]
        assert_allclose(
            codec.decode(codec.encode(jnp.asarray(x), (), key)[0], 11),
            np.concatenate(parts),
            rtol=1e-14,
        )
        whole, wide = made("qsgd", levels=4), made("qsgd", levels=4, bucket=100)
        one, other = (c.decode(c.encode(jnp.asarray(x), (), key)[0], 11) for c in (whole, wide))
        assert_array_equal(one, other)


@pytest.mark.long
@pytest.mark.parametrize("link", LINKS, ids=names)
def test_a_power_of_two_passes_through(link):
    """C(2ᵏ x) = 2ᵏ C(x) bit for bit in float32, near its largest and least numbers."""
    rows = np.random.default_rng(3).normal(size=(4, 13)).astype(np.float32)
    rows[1, 2:], rows[2] = 0, np.abs(rows[2])
    arrived = fedsim.transmit(link, rows, seed=1)[0]
    for power in (120, -95):
        scaled = fedsim.transmit(link, np.ldexp(rows, power), seed=1)[0]
        assert_array_equal(scaled, np.ldexp(arrived, power))


def test_scales_are_powers_of_two():
    for x in (
        [0.0, 0.0],
        [3e38, 1.0],
        [1e-40, 0.0],
        [1.2e-38, -5e-39],
        [-5.0, 4.0],
        [3.4e38, -3.4e38],
    ):
        z, scale = jax.jit(unit)(jnp.asarray(x, jnp.float32))
        assert np.isfinite(z).all() and np.abs(z).max() < 4 and np.frexp(scale)[0] == 0.5
        if np.abs(x).max() > 1e-30:
            assert_array_equal(z * scale, np.asarray(x, np.float32))


@if_whole
@pytest.mark.long
def test_no_layout_changes_a_bit_or_a_length():
    """And behind an entropy code messages take fewer bytes, in a column of its own."""
    scenario = {
        "name": "quantisers",
        "rounds": 3,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 9},
        "cohort": {"kind": "uniform", "size": 6},
        "wire": [{"kind": "qsgd", "levels": 1, "entropy": True}],
    }
    whole = fedsim.run(scenario)
    for numerics in ({"block": 2}, {"block": 5, "lanes": 3}):
        other = fedsim.run({**scenario, "numerics": numerics})
        assert to_csv(whole.records["rounds"], TABLE_COLUMNS["rounds"]) == to_csv(
            other.records["rounds"], TABLE_COLUMNS["rounds"]
        )
        for a, b in zip(
            jax.tree.leaves(whole.model()), jax.tree.leaves(other.model()), strict=True
        ):
            assert_array_equal(a, b)
    d = sum(leaf.size for leaf in jax.tree.leaves(whole.model()))
    plain, short = -(-(32 + 2 * d) // 8), whole.rounds["qsgd/entropy_bytes"].iloc[1:]
    assert whole.rounds["bytes_up"].tolist() == [0, 6 * plain, 12 * plain, 18 * plain]
    assert (short < plain).all() and (short > 4).all()


SIZES, D, ROUNDS = [4, 1, 0, 3, 2, 0, 5], 5, [[0, 3], [1, 2, 3, 6], [4, 6], [0, 1, 5]]


def problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(len(SIZES), D, D))
    return roots @ roots.swapaxes(1, 2) / D + np.eye(D), rng.normal(size=(len(SIZES), D))


def in_numpy(compress) -> tuple[np.ndarray, np.ndarray]:
    """FedAvg on quadratics under error feedback, half a server step -> (x, errors of clients)."""
    (H, a), x, e = problem(), np.full(D, 2.0), np.zeros((len(SIZES), D))
    for ids in ROUNDS:
        total, weight = np.zeros(D), 0
        for i in (i for i in ids if SIZES[i]):
            y = x.copy()
            for _ in range(3):
                y = y - 0.1 * H[i] @ (y - a[i])
            p = y - x + e[i]
            sent = compress(p)
            e[i] = p - sent
            total, weight = total + SIZES[i] * sent, weight + SIZES[i]
        x = x + 0.5 * total / weight
    return x, e


def in_fedsim(link: dict) -> fedsim.Result:
    """The same: some of the clients, others without samples."""
    H, a = problem()
    brought = quadratic({"H": H, "a": a, "sizes": SIZES, "x0": np.full(D, 2.0)})
    scenario = {
        "name": "quadratics",
        "rounds": len(ROUNDS),
        "data": {"clients": len(SIZES), "test": 0.0},
        "numerics": {"dtype": "float64"},
        "cohort": {"kind": "listed", "rounds": ROUNDS},
        "client": {"lr": 0.1, "batch": "full", "steps": 3},
        "wire": [{"kind": "error_feedback", "codec": link}],
        "server": ["mean", {"kind": "sgd", "lr": 0.5}],
    }
    samples = fedsim.Arrays(brought["data"].x, brought["data"].y)
    return fedsim.run(scenario, **{**brought, "data": samples}, partition=consecutive(SIZES))


@pytest.mark.long
def test_a_run_with_signs_is_that_of_plain_numpy():
    result = in_fedsim({"kind": "sign"})
    x, e = in_numpy(lambda p: np.abs(p).mean() * np.sign(p))
    assert_allclose(result.model(), x, rtol=1e-12)
    assert_allclose(result.state()["client"]["error_feedback"]["error"], e, rtol=1e-9, atol=1e-12)
    assert result.rounds["bytes_up"].iloc[1] == 2 * -(-(5 + 32) // 8)
