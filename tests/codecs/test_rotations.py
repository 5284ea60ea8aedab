"""Rotated codecs: the transform, the best values for normal numbers, oracles, constants."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import if_whole, oracle
from numpy.testing import assert_allclose, assert_array_equal
from test_quantisers import in_fedsim, in_numpy, made

import fedsim
from fedsim.codecs.drive import one_bit
from fedsim.codecs.drive import restored as from_one_bit
from fedsim.codecs.eden import nearest, restored
from fedsim.codecs.hadamard import padded, rotate, signs, transform, unrotate
from fedsim.codecs.lloyd_max import centroids, thresholds
from fedsim.compose import FAMILIES
from fedsim.types import Codec

pytestmark = pytest.mark.usefixtures("quickly_compiled")

CASES = oracle("compression")


def cases(fn: str) -> list[dict]:
    return [case for case in CASES if case["fn"] == fn]


def hadamard(n: int) -> np.ndarray:
    """Sylvester's matrix."""
    H = np.ones((1, 1))
    while len(H) < n:
        H = np.block([[H, H], [H, -H]])
    return H


@pytest.mark.parametrize("n", [1, 2, 8, 32, 128])
def test_the_transform_is_that_of_the_matrix(n):
    with jax.enable_x64(True):
        x = np.random.default_rng(n).normal(size=n)
        y = jax.jit(transform)(jnp.asarray(x))
        assert_allclose(y, hadamard(n) @ x / math.sqrt(n), rtol=1e-12, atol=1e-14)
        assert_allclose(jax.jit(transform)(y), x, rtol=1e-12, atol=1e-14)


@pytest.mark.long
def test_a_long_transform_keeps_the_norm_and_finds_its_way_back():
    n = 2**17
    x = jax.random.normal(jax.random.key(0), (n,))
    y = jax.jit(transform)(x)
    assert_allclose(jnp.linalg.norm(y), jnp.linalg.norm(x), rtol=1e-5)
    assert_allclose(jax.jit(transform)(y), x, atol=3e-6)
    for j in (0, 77, n - 1):  # columns of the matrix: (−1) to the number of ones that j and k share
        shared = np.bitwise_count(np.arange(n) & j)
        assert_allclose(
            jax.jit(transform)(jnp.zeros(n).at[j].set(n**0.5)), (-1.0) ** shared, rtol=1e-6
        )


@pytest.mark.long
def test_signs_are_drawn_bit_by_bit():
    for n in (1, 5, 32, 100):
        assert (
            set(np.unique(signs(jax.random.key(1), n))) <= {-1.0, 1.0}
            and len(signs(jax.random.key(1), n)) == n
        )
    many = np.asarray(signs(jax.random.key(2), 40000))
    assert abs(many.sum()) < 5 * 200 and abs((many[1:] * many[:-1]).sum()) < 5 * 200
    assert np.mean(many != np.asarray(signs(jax.random.key(3), 40000))) > 0.45


@pytest.mark.long
def test_a_rotation_is_that_of_its_oracle():
    with jax.enable_x64(True):
        for case in cases("rht"):
            x, s = (jnp.asarray(case["inputs"][name], float) for name in ("x", "signs"))
            assert len(s) == padded(len(x)) == case["params"]["padded"]
            y = rotate(x, s)
            assert_allclose(y, case["expected"]["y"], rtol=1e-12, atol=1e-14)
            assert_allclose(jnp.linalg.norm(y), case["expected"]["norm_preserved"], rtol=1e-12)
            assert_allclose(unrotate(y, s, len(x)), x, atol=1e-14)


def test_drive_is_that_of_its_oracle():
    with jax.enable_x64(True):
        for case in cases("drive"):
            x, s = (jnp.asarray(case["inputs"][name], float) for name in ("x", "signs"))
            want = case["expected"]
            for biased, scale, arrives in (
                (True, "S_biased", "biased"),
                (False, "S_unbiased", "unbiased_scale"),
            ):
                S, positive = one_bit(x, s, biased)
                assert_allclose(S, want[scale], rtol=1e-12)
                y = from_one_bit(S, positive, s, len(x))
                assert_allclose(y, want[arrives], rtol=1e-12, atol=1e-12, err_msg=case["name"])
                if biased:
                    assert_allclose(
                        ((y - x) ** 2).sum() / (x**2).sum(), want["vnmse_biased"], rtol=1e-10
                    )


def test_the_scale_of_drive_is_over_the_padded_vector():
    with jax.enable_x64(True):
        x, key = jnp.linspace(-1.0, 2.0, 5), jax.random.key(3)
        (scale, _, _), _, _ = FAMILIES["codec"]["drive"](biased=True).encode(x, (), key)
        assert_allclose(scale, np.abs(rotate(x, signs(key, 8))).mean(), rtol=1e-12)


@pytest.mark.long
def test_eden_is_that_of_its_oracle():
    with jax.enable_x64(True):
        for case in cases("eden"):
            x, s = (jnp.asarray(case["inputs"][name], float) for name in ("x", "signs"))
            bits, want = case["params"]["bits"], case["expected"]
            scale, levels = nearest(x, s, bits)
            assert levels.tolist() == want["levels"]
            assert_allclose(scale, want["scale"], rtol=1e-12)
            assert_allclose(
                restored(scale, levels, s, bits, len(x)), want["y"], rtol=1e-12, atol=1e-12
            )
            assert (
                made("eden", bits=bits).encode(x, (), jax.random.key(0))[1] == want["message_bits"]
            )


def test_values_for_normal_numbers_are_those_of_lloyd_and_max():
    (case,) = cases("lloyd_max")
    for row in case["expected"]["table"]:
        c, t = (np.array(f(row["bits"])) for f in (centroids, thresholds))
        assert_allclose(c[len(c) // 2 :], row["centroids_positive"], rtol=2e-12)
        assert_allclose(c, -c[::-1], rtol=0, atol=0)
        shares = np.diff([0, *(0.5 * math.erfc(-x / math.sqrt(2)) for x in t), 1])
        distortion = 1 - (shares * c**2).sum()  # of values that are means
        assert_allclose(distortion, row["lloyd_max_distortion"], rtol=1e-9)
        assert_allclose(1 / (1 - distortion) - 1, row["eden_vnmse_unbiased_limit"], rtol=1e-9)


def errors(kind: str, d: int, n: int, **arguments) -> np.ndarray:
    """‖C(x) − x‖² / ‖x‖² of n normal vectors, which are uniform rotations of any."""
    codec = made(kind, **arguments)

    def one(key):
        x = jax.random.normal(jax.random.fold_in(key, 0), (d,))
        y = codec.decode(codec.encode(x, (), jax.random.fold_in(key, 1))[0], d)
        return ((y - x) ** 2).sum() / (x**2).sum()

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(d), n)), float)


PUBLISHED = [0.57080, 0.13312, 0.03578, 0.00959, 0.00251, 0.00064]


@pytest.mark.long
@pytest.mark.parametrize("bits", range(1, 7))
def test_eden_comes_to_its_constants(bits):
    (case,) = cases("lloyd_max")
    limit = case["expected"]["table"][bits - 1]["eden_vnmse_unbiased_limit"]
    error = errors("eden", 2**13, 200, bits=bits)
    assert abs(error.mean() - limit) < 5 * error.std() / math.sqrt(len(error)) < 0.03 * limit
    assert round(limit, 5) == PUBLISHED[bits - 1]


@pytest.mark.long
@pytest.mark.parametrize("d", [2, 32, 1024])
def test_drive_comes_to_its_constants(d):
    (case,) = cases("drive_vnmse")
    want = next(row for row in case["expected"]["table"] if row["d"] == d)
    n = 1000 if d > 200 else 20000
    error = errors("drive", d, n, biased=True)
    assert_allclose(
        (1 - 2 / math.pi) * (1 - 1 / d), want["biased_theorem_(1-2/pi)(1-1/d)"], rtol=1e-12
    )
    assert abs(error.mean() - (1 - 2 / math.pi) * (1 - 1 / d)) < 5 * error.std() / math.sqrt(n)
    assert_allclose(errors("drive", d, n).mean(), want["unbiased_mc"], rtol=0.02)


@pytest.mark.long
def test_errors_of_unbiased_messages_average_out():
    """With 64 rotations of a vector, the error of the mean is near 1/64 of that of a message."""
    d = 2000
    x = jax.random.normal(jax.random.key(0), (d,))
    for kind, arguments in (("drive", {}), ("eden", {"bits": 1}), ("eden", {"bits": 3})):
        codec = made(kind, **arguments)
        one = lambda key: codec.decode(codec.encode(x, (), key)[0], d)
        y = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 64))
        alone, together = ((y - x) ** 2).sum(axis=1).mean(), ((y.mean(axis=0) - x) ** 2).sum()
        assert 0.9 < 64 * together / alone < 1.1
    one_bit_scale = made("drive").encode(x, (), jax.random.key(3))[0][0]
    scale = made("eden", bits=1).encode(x, (), jax.random.key(3))[0][0]
    assert_allclose(one_bit_scale, scale * centroids(1)[1], rtol=1e-5)


@pytest.mark.long
def test_a_rotation_shrinks_the_range_of_few_large_coordinates():
    rows = np.zeros((8, 1000))
    rows[:, :3] = np.random.default_rng(0).normal(size=(8, 3)) * 100
    rows += np.random.default_rng(1).normal(size=rows.shape)
    error = [
        ((fedsim.transmit({"kind": "stochastic_quantise", "rotate": r}, rows)[0] - rows) ** 2).sum()
        for r in (False, True)
    ]
    assert error[1] < error[0] / 3


SIGNS = np.array([1.0, -1, -1, 1, -1, -1, 1, 1])


def rotated(compress):
    """A codec of 5 coordinates in NumPy, from that of the 8 rotated ones."""
    R = hadamard(8) @ np.diag(SIGNS) / math.sqrt(8)
    return lambda p: (R.T @ compress(R @ np.r_[p, np.zeros(3)]))[:5]


def by_eden(y, bits=2):
    c = np.array(centroids(bits))
    q = c[np.abs(y[:, None] * math.sqrt(8) / np.linalg.norm(y) - c).argmin(axis=1)]
    return q * (y @ y) / (y @ q)


@pytest.fixture
def with_fixed_signs():
    """Codecs whose rotation is the same for all messages."""

    def fixed_drive() -> Codec:
        s = lambda: jnp.asarray(SIGNS)
        encode = lambda x, memory, key: (one_bit(x, s(), True), 8 + 32, memory)
        return Codec(encode, lambda payload, d: from_one_bit(*payload, s(), d))

    def fixed_eden() -> Codec:
        s = lambda: jnp.asarray(SIGNS)
        encode = lambda x, memory, key: (nearest(x, s(), 2), 16 + 32, memory)
        return Codec(encode, lambda payload, d: restored(*payload, s(), 2, d))

    kinds = {**FAMILIES["codec"]}
    for factory in (fixed_drive, fixed_eden):
        fedsim.codec(factory)
    yield
    FAMILIES["codec"].clear()
    for (
        factory
    ) in kinds.values():  # registered again: what is derived from the families is made anew
        fedsim.codec(factory)


@pytest.mark.long
def test_a_run_with_given_signs_is_that_of_plain_numpy(with_fixed_signs):
    for kind, compress in {
        "fixed_drive": lambda y: np.abs(y).mean() * np.where(y >= 0, 1, -1),
        "fixed_eden": by_eden,
    }.items():
        result, (x, e) = in_fedsim({"kind": kind}), in_numpy(rotated(compress))
        assert_allclose(result.model(), x, rtol=1e-10)
        assert_allclose(
            result.state()["client"]["error_feedback"]["error"], e, rtol=1e-8, atol=1e-12
        )


@if_whole
@pytest.mark.long
def test_no_layout_changes_a_rotated_message():
    scenario = {
        "name": "rotations",
        "rounds": 3,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 9},
        "cohort": {"kind": "uniform", "size": 6},
        "wire": [{"kind": "error_feedback", "codec": {"kind": "eden", "bits": 2}}],
    }
    whole = fedsim.run(scenario)
    for numerics in ({"block": 2}, {"block": 5, "lanes": 3}):
        other = fedsim.run({**scenario, "numerics": numerics})
        for a, b in zip(
            jax.tree.leaves(whole.state()), jax.tree.leaves(other.state()), strict=True
        ):
            assert_array_equal(a, b)
        for a, b in zip(
            jax.tree.leaves(whole.model()), jax.tree.leaves(other.model()), strict=True
        ):
            assert_array_equal(a, b)
