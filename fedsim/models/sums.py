"""Sums over the last axis that XLA's compiler for CPUs does not slow down, and what they make."""

import jax
import jax.numpy as jnp
from jax import lax

EPSILON = 1e-5


def sum_of_products(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the sum of a · b over the last axis, which stays with length 1.

    XLA on CPUs computes a plain sum of products as matrix products of single rows, which takes 10
    to 50 times as long. The `where`, which replaces zeros by zeros, keeps it from seeing products.
    """
    products = a * b
    return jnp.sum(jnp.where(products == 0, 0, products), -1, keepdims=True)


@jax.custom_vjp
def standardised(h: jax.Array) -> jax.Array:
    """Return (h − μ)/√(σ² + ε), with the mean and the variance over the last axis."""
    n, _ = _standardised(h)
    return n


def _standardised(h):
    centred = h - jnp.mean(h, -1, keepdims=True)
    var = jnp.mean(jnp.square(centred), -1, keepdims=True)
    scale = lax.rsqrt(var + EPSILON)
    n = centred * scale
    return n, (n, scale)


def _back_from_standardised(values, g):
    """The gradient of h: the part of g along neither the mean nor n itself, scaled."""
    n, scale = values
    along_mean = jnp.mean(g, -1, keepdims=True)
    along_n = sum_of_products(g, n) * (1 / n.shape[-1])
    return (scale * (g - along_mean - n * along_n),)


standardised.defvjp(_standardised, _back_from_standardised)


@jax.custom_vjp
def softmax(scores: jax.Array) -> jax.Array:
    """Return exp(s)/Σ exp(s) over the last axis."""
    return jax.nn.softmax(scores)


def _softmax(scores):
    weights = softmax(scores)
    return weights, weights


def _back_from_softmax(weights, g):
    mean_gradient = sum_of_products(g, weights)
    return (weights * (g - mean_gradient),)


softmax.defvjp(_softmax, _back_from_softmax)
