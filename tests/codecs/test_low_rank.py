"""Matrices of low rank on the wire: what arrives, what is remembered, and its bytes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedsim
from fedsim.codecs.low_rank import orthonormalised
from fedsim.compose import FAMILIES, shaped

LINK = {"kind": "low_rank", "rank": 2}


def made(rank: int, **leaves: tuple[int, ...]):
    """The codec for leaves of these shapes."""
    like = {name: jnp.zeros(shape) for name, shape in leaves.items()}
    return shaped(FAMILIES["codec"]["low_rank"](rank=rank), like)


def best(M: np.ndarray, rank: int) -> np.ndarray:
    u, s, v = np.linalg.svd(M, full_matrices=False)
    return u[:, :rank] * s[:rank] @ v[:rank]


@pytest.mark.long
def test_outputs_are_rows_and_other_leaves_travel_whole():
    """A kernel [3, 3, in, out] is a matrix out × rest; vectors and small matrices are unchanged."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=(2, *shape))
    stack = {"a": draw(3, 3, 4, 6), "b": draw(6), "c": draw(), "d": draw(4, 4), "e": draw(9, 5)}
    arrived, size = fedsim.transmit(LINK, stack)
    assert size.tolist() == [4 * (2 * (36 + 6) + 6 + 1 + 16 + 2 * (9 + 5))] * 2
    for name in "bcd":  # 2 (4 + 4) ≥ 4 · 4
        assert_array_equal(arrived[name], stack[name])
    with jax.enable_x64(True):
        codec = made(2, **{name: leaf.shape[1:] for name, leaf in stack.items()})
        Q = codec.memory(jnp.zeros(sum(leaf[0].size for leaf in stack.values())))
    for name, start in zip("ae", Q, strict=True):
        n = stack[name].shape[-1]
        for row, got in zip(stack[name], arrived[name], strict=True):
            M = row.reshape(-1, n).T
            P = np.linalg.qr(M @ np.asarray(start))[0]
            assert_allclose(got.reshape(-1, n).T, P @ P.T @ M, rtol=1e-12, atol=1e-12)
    assert fedsim.transmit(LINK, draw(7))[1].tolist() == [28, 28]


@pytest.mark.long
def test_the_next_message_starts_from_the_last_one():
    """Messages of the same matrix approach its best approximation; a column of 0 restarts."""
    rng = np.random.default_rng(1)
    M = rng.normal(size=(20, 30)) @ np.diag(0.7 ** np.arange(30))
    with jax.enable_x64(True):
        codec = made(3, w=(30, 20))
        x, memory = jnp.asarray(M.T.ravel()), codec.memory(jnp.zeros(600))
        first, errors = memory[0], []

        @jax.jit
        def message(memory):
            payload, _, memory = codec.encode(x, memory, None)
            return codec.decode(payload, 600), memory

        for _ in range(60):
            arrives, memory = message(memory)
            errors.append(np.linalg.norm(arrives.reshape(30, 20).T - M))
        least = np.linalg.norm(M - best(M, 3))
        assert errors[0] > 1.05 * least and errors[1] < errors[0]
        assert_allclose(errors[-1], least, rtol=1e-9)
        payload, _, memory = codec.encode(jnp.zeros(600), memory, None)
        assert not codec.decode(payload, 600).any()
        assert_array_equal(memory[0], first)
        one = jnp.asarray(np.outer(M[0], M[:, 0]).ravel())  # two of three columns are 0
        payload, _, memory = codec.encode(one, memory, None)
        assert_allclose(codec.decode(payload, 600), one, rtol=1e-12, atol=1e-12)
        assert_array_equal(memory[0][:, 1:], first[:, 1:])


@pytest.mark.quick(5)
@pytest.mark.parametrize("size", [0.0, 1e-42, 1e-30, 1.0, 1e38])
def test_numbers_of_any_size_keep_their_rank(size):
    M = (size * np.random.default_rng(2).uniform(-1, 1, size=(2, 12, 9))).astype(np.float32)
    arrived, _ = fedsim.transmit(LINK, {"w": M})
    assert np.isfinite(arrived["w"]).all()
    if size > 1e-38:
        length = lambda matrix: np.linalg.norm((matrix / size).astype(float))
        assert 0.3 < length(arrived["w"]) / length(M) < 1
    else:
        assert np.abs(arrived["w"]).max() <= 2 * size


@pytest.mark.long
def test_dependent_columns_become_zero_and_the_others_orthonormal():
    P = np.random.default_rng(3).normal(size=(300, 6)).astype(np.float32)
    P[:, 3], P[:, 5] = 2 * P[:, 2], P[:, 1] + 1e-5 * P[:, 5]  # the last one is nearly dependent
    basis = np.asarray(orthonormalised(jnp.asarray(P)), float)
    assert_allclose(basis.T @ basis, np.diag([1, 1, 1, 0, 1, 1]), atol=1e-6)
