"""The direction in which a few rows spread most, in arithmetic whose bits do not depend on how many slots are empty."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

SQUARINGS = 30  # the 2³⁰-th power of a matrix: other directions are gone, unless they spread within 1e-8 as much


def dominant(matrix: Float[Array, "K K"]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """(largest eigenvalue, its unit eigenvector) of a matrix that is symmetric and positive semi-definite; (0, 0) of zero.

    By repeated squaring, one row after another, so that rows of zeros change no bit.
    """
    unit = _scaled(matrix)
    power = lax.fori_loop(0, SQUARINGS, lambda _, power: _scaled(_times(power, power)), unit)
    vector = power[jnp.argmax(jnp.diagonal(power))]
    for _ in range(2):  # what rounding left in it of other directions
        vector = _normed(_applied(unit, vector))
    image = _applied(matrix, vector)
    return total(image * vector), vector


def total(values: Float[Array, "K ..."]) -> Float[Array, "..."]:
    """The sum over the leading axis, one after another."""
    return lax.fori_loop(
        0, values.shape[0], lambda k, sum: sum + values[k], jnp.zeros_like(values[0])
    )


def _times(a: Float[Array, "K K"], b: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """The product of two matrices, by the columns of the one and the rows of the other."""
    add = lambda k, sum: sum + a[:, k][:, None] * b[k][None, :]
    return lax.fori_loop(0, a.shape[0], add, jnp.zeros_like(a))


def _applied(matrix: Float[Array, "K K"], vector: Float[Array, " K"]) -> Float[Array, " K"]:
    """A symmetric matrix times a vector."""
    add = lambda k, sum: sum + vector[k] * matrix[k]
    return lax.fori_loop(0, len(vector), add, jnp.zeros_like(vector))


def _scaled(matrix: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """Over its largest entry."""
    largest = jnp.max(jnp.abs(matrix))
    return matrix * jnp.where(largest > 0, 1 / jnp.where(largest > 0, largest, 1), 0)


def _normed(vector: Float[Array, " K"]) -> Float[Array, " K"]:
    """At length 1; zero where it is zero."""
    length = jnp.sqrt(total(vector * vector))
    return vector * jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
