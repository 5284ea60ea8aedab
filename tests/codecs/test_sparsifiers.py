"""Codecs that send some coordinates, some messages, or code words: oracles, NumPy and variances."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare
from test_codecs import run

import fedsim
from fedsim.codecs.product_quantise import drawn as drawn_by_weight
from fedsim.codecs.product_quantise import scaled, started
from fedsim.codecs.sizes import plus, size, subset_bits, subset_bits_of
from fedsim.compose import FAMILIES, in_bytes, max_bytes
from fedsim.tree.selection import by_search, largest, random_indices

CODECS = FAMILIES["codec"]
CAST = {"kind": "cast", "dtype": "float16"}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_searches_keep_the_same_coordinates(dtype):
    """Of equal ones those of the lowest places: a stable sort."""
    with jax.enable_x64(dtype == "float64"):
        rng = np.random.default_rng(0)
        huge = 3e38 * rng.normal(size=130).clip(-1, 1)
        ties = rng.integers(-2, 3, 130)
        rows = np.abs([rng.normal(size=130), ties, np.zeros(130), huge]).astype(dtype)
        for k in (1, 64, 130):
            want = np.sort(np.argsort(-rows, axis=1, kind="stable")[:, :k], axis=1)
            for search in (by_search, largest):
                assert_array_equal(jax.jit(jax.vmap(lambda x, k=k, f=search: f(x, k)))(rows), want)


def test_sizes_are_exact_beyond_an_int32():
    long = 32 * 500_000_000
    for count, each, fixed in ((100_000_000, 59, 32), (1, long, 1), (0, long, 1), (7, 13, 32)):
        counted, bits = size(jnp.int32(count), each, fixed), count * each + fixed
        assert int(in_bytes(counted)) == -(-bits // 8)
        sums = int(in_bytes(plus(counted, 5))), int(in_bytes(plus(5, counted)))
        assert sums == (-(-(bits + 5) // 8),) * 2
    assert plus(3, 4) == 7 and int(in_bytes(plus(jnp.int32(3), 6))) == 2


@pytest.mark.long
def test_sets_are_counted():
    for d, k in ((5, 0), (5, 5), (100, 1), (100, 99), (10_000, 300), (1_000_000, 999_100)):
        exact = math.log2(math.comb(d, k))
        assert_allclose(float(subset_bits_of(d, jnp.int32(k))), exact, rtol=1e-6, atol=2e-3)
        assert subset_bits(d, k) == (math.comb(d, k) - 1).bit_length()
    by_gamma_function = subset_bits(20_000, 5000)
    assert by_gamma_function == (math.comb(20_000, 5000) - 1).bit_length()


@pytest.mark.long
def test_values_are_sent_by_a_codec():
    x = np.random.default_rng(0).normal(size=(2, 40)).astype(np.float32)
    plain, _ = fedsim.transmit({"kind": "top_k", "k": 5}, x)
    short, bits = fedsim.transmit({"kind": "top_k", "k": 5, "values": CAST}, x)
    assert_array_equal(short, plain.astype(np.float16).astype(np.float32))
    assert bits.tolist() == [-(-5 * (16 + 6) // 8)] * 2
    scaled, bits = fedsim.transmit({"kind": "rand_k", "k": 5, "values": CAST}, x)
    assert bits.tolist() == [-(-(5 * 16 + 32) // 8)] * 2
    rounded = x.astype(np.float16).astype(np.float32)
    assert_array_equal(scaled, np.where(scaled != 0, rounded * 8, 0))
    threshold, large = {"kind": "threshold", "value": 2.0}, np.abs(plain) >= 2
    twice, bits = fedsim.transmit({"kind": "top_k", "k": 5, "values": threshold}, x)
    assert_array_equal(twice, np.where(large, plain, 0))
    assert bits.tolist() == [-(-(32 + n * (32 + 3) + 5 * 6) // 8) for n in large.sum(1)]
    most = lambda kind: max_bytes(CODECS[kind](k=5, values=CODECS["threshold"](2.0)), x[0])
    assert most("top_k") == -(-(32 + 5 * 35 + 30) // 8)
    assert most("rand_k") == -(-(32 + 5 * 35 + 32) // 8)


def test_codecs_of_leaves_send_no_values():
    leaves = CODECS["cast"]()._replace(shaped=lambda shapes: CODECS["cast"]())
    with pytest.raises(ValueError, match="cast cannot send values: it encodes the leaves of a mod"):
        CODECS["top_k"](k=3, values=leaves)


@pytest.mark.long
@pytest.mark.parametrize(("d", "k"), [(16, 2), (7, 2)], ids=["in turn", "the largest"])
def test_all_sets_of_places_are_equally_likely(d, k):
    keys = jax.random.split(jax.random.key(1), 12_000)
    places = np.sort(jax.jit(jax.vmap(lambda key: random_indices(key, d, k)))(keys), axis=1)
    assert (np.diff(places, axis=1) > 0).all() and places.min() == 0 and places.max() == d - 1
    _, count = np.unique(places @ [d, 1], return_counts=True)
    assert len(count) == math.comb(d, k)
    assert chisquare(count).pvalue > 1e-3


@pytest.mark.long
def test_of_a_lazy_server_clients_keep_the_start_model():
    """They get all of it when they first take part; then a silent server sends one bit to each."""
    broadcast = [{"kind": "lazy", "probability": 1e-6}]
    silent = run(wire=[], broadcast=broadcast, rounds=2, client={"lr": 0.0}, cohort="all")
    start = jax.tree.leaves(run(wire=[], rounds=0).model())
    for a, b in zip(jax.tree.leaves(silent.model()), start, strict=True):
        assert_array_equal(a, b)
    assert np.diff(silent.rounds["bytes_down"]).tolist() == [10 * 4 * sum(map(np.size, start)), 10]


@pytest.mark.long
def test_entropy_codes_are_a_column():
    links = [
        ({"kind": "top_k", "k": 9, "values": CAST}, lambda d: (16 * 9 + subset_bits(d, 9)) / 8),
        ({"kind": "threshold", "value": 0}, lambda d: 4 + 4 * d),
    ]
    for link, want in links:
        result = run(wire=[{**link, "entropy": True}], rounds=1)
        d = sum(map(np.size, jax.tree.leaves(result.model())))
        assert result.rounds[f"{link['kind']}/entropy_bytes"].iloc[-1] == math.ceil(want(d))


def numpy_k_means(x, block, start, iterations):
    """Lloyd's algorithm from given code words, in plain NumPy -> what is decoded."""
    sub = np.pad(x, (0, -len(x) % block)).reshape(-1, block)
    words = start.copy()
    for _ in range(iterations):
        codes = ((sub[:, None] - words[None]) ** 2).sum(2).argmin(1)
        for c in range(len(words)):
            if (codes == c).any():
                words[c] = sub[codes == c].mean(0)
    codes = ((sub[:, None] - words[None]) ** 2).sum(2).argmin(1)
    return words[codes].reshape(-1)[: len(x)]


def test_product_quantisation_is_that_of_plain_numpy():
    x = np.random.default_rng(2).normal(size=203)
    padded = np.pad(x, (0, 1))
    codec = CODECS["product_quantise"](block=4, codewords=10, iterations=3)

    @jax.jit
    def first_words_and_result(key):
        sub, unit = scaled(jnp.asarray(padded).reshape(-1, 4).T)
        words = started(sub, jax.random.uniform(key, (10,))) * unit
        payload, bits, _ = codec.encode(jnp.asarray(x), (), key)
        return words.T, codec.decode(payload, 203), bits

    with jax.enable_x64(True):
        start, arrived, bits = map(np.asarray, first_words_and_result(jax.random.key(4)))
    assert all((padded.reshape(-1, 4) == word).all(1).any() for word in start)
    assert len(np.unique(start, axis=0)) == 10
    assert_allclose(arrived, numpy_k_means(x, 4, start, 3), rtol=1e-12, atol=1e-14)
    assert bits == 32 * 10 * 4 + 51 * 4


@pytest.mark.long
def test_code_words_are_drawn_by_their_weights():
    weights = np.r_[np.zeros(600), 1.0, 0, 2.0, np.zeros(700), 5.0, 0].astype(np.float32)
    draw = jax.jit(jax.vmap(lambda u: drawn_by_weight(jnp.asarray(weights), u)))
    places = np.asarray(draw(jnp.linspace(0, 1, 8000, endpoint=False)))
    drawn, count = np.unique(places, return_counts=True)
    assert drawn.tolist() == [600, 602, 1303] and count.tolist() == [1000, 2000, 5000]


@pytest.mark.long
def test_large_messages_are_encoded_without_a_large_array():
    """A million coordinates and 256 code words: arrays of n numbers, none of n × codewords."""
    from fedsim.engine.footprint import coding_bytes

    x = jax.ShapeDtypeStruct((1_000_000,), np.float32)
    sparse = [CODECS[kind](density=0.1) for kind in ("rand_k", "top_k")]
    for codec in (CODECS["product_quantise"](), *sparse):
        assert coding_bytes(codec, x) <= 8 * 1_000_000
