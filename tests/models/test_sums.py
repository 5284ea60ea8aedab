"""Sums of products, standardised values and softmax against their plain forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.models import sums


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def drawn(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape))


def plain_standardised(h):
    centred = h - h.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + sums.EPSILON)


def test_a_sum_of_products_is_their_sum():
    a = np.asarray(drawn(3, 5, 40))
    b = a[::-1].copy()
    b[:, 3] = 0
    got = jax.jit(sums.sum_of_products)(a, b)
    np.testing.assert_allclose(got, np.sum(a * b, -1, keepdims=True))


def test_what_is_not_finite_stays_in_the_sum():
    a = jnp.asarray([[1.0, jnp.nan], [0.0, jnp.inf], [2.0, jnp.inf]])
    b = jnp.asarray([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    got = sums.sum_of_products(a, b)
    np.testing.assert_array_equal(got, [[np.nan], [np.nan], [np.inf]])


CASES = {
    "standardised": (sums.standardised, plain_standardised),
    "softmax": (sums.softmax, jax.nn.softmax),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives_are_those_of_the_plain_form(case):
    """The second derivatives too, which methods that learn through a step need."""
    ours, plain = CASES[case]
    h = drawn(2, 6, 4)
    weights = drawn(2, 6, 4) + 1

    def loss(function):
        return lambda h: jnp.sum(weights * function(h) ** 2)

    def squared_gradient(function):
        return lambda h: jnp.sum(jax.grad(loss(function))(h) ** 2)

    np.testing.assert_allclose(ours(h), plain(h), rtol=1e-12)
    for derived in (loss, squared_gradient):
        got, expected = (jax.jit(jax.grad(derived(function)))(h) for function in (ours, plain))
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
