"""Quantisers: their draws, buckets, and lengths of codes; with given draws: the oracles."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_codec_oracles import by_qsgd, cases, made

from fedsim.codecs.entropy import arithmetic_bits, dense_bits, gaps_bits, omega_bits


@pytest.mark.long
def test_numbers_that_are_levels_arrive_as_they_are():
    with jax.enable_x64(True):
        x, codec = jnp.tile(jnp.arange(4.0), 8), made("stochastic_quantise", levels=4)
        payload, _, _ = codec.encode(x, (), jax.random.key(0))
        assert_allclose(codec.decode(payload, len(x)), x, rtol=1e-12)


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
    few = (rng.random(200) < 0.05) * rng.integers(-9, 9, 200)
    for levels in (rng.integers(-3, 4, 200), few, np.zeros(200, int)):
        places = np.flatnonzero(levels)
        gaps = np.diff(places, prepend=-1)
        sparse = "".join(
            omega(int(gap)) + "s" + omega(abs(int(levels[i])))
            for gap, i in zip(gaps, places, strict=True)
        )
        dense = "".join(omega(abs(int(level)) + 1) + "s" * int(level != 0) for level in levels)
        assert gaps_bits(jnp.asarray(levels)) == len(sparse)
        assert dense_bits(jnp.asarray(levels)) == len(dense)


@pytest.mark.long
def test_arithmetic_codes_take_the_empirical_entropy():
    symbols = np.random.default_rng(1).choice(4, 500, p=[0.7, 0.2, 0.1, 0.0])
    counts = [np.sum(symbols == r) for r in range(3)]
    entropy = -sum(n * math.log2(n / 500) for n in counts) + math.log2(math.comb(503, 3))
    assert_allclose(arithmetic_bits(jnp.asarray(symbols), 4), entropy, rtol=1e-5)
    one_symbol = arithmetic_bits(jnp.zeros(500, jnp.int32), 3)
    assert_allclose(one_symbol, math.log2(math.comb(502, 2)), rtol=1e-5)


@pytest.mark.long
def test_a_bucket_is_a_message_of_its_own():
    key = jax.random.key(3)
    sent = lambda x, codec: codec.decode(codec.encode(x, (), key)[0], 11)
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).random(11) - 0.5)
        u = jax.random.uniform(key, (11,), float)

        @jax.jit
        def both_ways(x, u):
            parts = [by_qsgd(x[i : i + 4], u[i : i + 4]) for i in (0, 4, 8)]
            return sent(x, made("qsgd", levels=4, bucket=4)), jnp.concatenate(parts)

        assert_allclose(*both_ways(x, u), rtol=1e-14)
        through = jax.jit(sent, static_argnums=1)
        of_all = made("qsgd", levels=4, bucket=100)
        assert_array_equal(through(x, made("qsgd", levels=4)), through(x, of_all))
