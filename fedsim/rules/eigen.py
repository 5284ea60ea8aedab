"""The direction in which a few rows spread most, the same bits however many slots are empty."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

# The 2³⁰-th power of a matrix: other directions vanish, unless their spread is within 1e-8 of it.
SQUARINGS = 30


def dominant(matrix: Float[Array, "K K"]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """Return the largest eigenvalue and its unit eigenvector by repeated squaring.

    Sums run row by row, so that rows of zeros change no bit.

    Args:
      matrix: symmetric and positive semi-definite; zero has the eigenvalue 0 and the vector 0.
    """
    unit = _scaled(matrix)
    power = lax.fori_loop(0, SQUARINGS, lambda _, power: _scaled(_times(power, power)), unit)
    vector = power[jnp.argmax(jnp.diagonal(power))]
    # Two more steps remove what rounding left of other directions.
    for _ in range(2):
        vector = _normalised(_product(unit, vector))
    image = _product(matrix, vector)
    return total(image * vector), vector


def total(values: Float[Array, "K ..."]) -> Float[Array, "..."]:
    """The sum over the leading axis, in order."""
    add = lambda k, so_far: so_far + values[k]
    return lax.fori_loop(0, values.shape[0], add, jnp.zeros_like(values[0]))


def _times(a: Float[Array, "K K"], b: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """The product of two matrices, as a sum of columns of `a` times rows of `b`."""
    add = lambda k, so_far: so_far + a[:, k][:, None] * b[k][None, :]
    return lax.fori_loop(0, a.shape[0], add, jnp.zeros_like(a))


def _product(matrix: Float[Array, "K K"], vector: Float[Array, " K"]) -> Float[Array, " K"]:
    """A symmetric matrix times a vector."""
    add = lambda k, so_far: so_far + vector[k] * matrix[k]
    return lax.fori_loop(0, len(vector), add, jnp.zeros_like(vector))


def _scaled(matrix: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """The matrix divided by its largest absolute entry; zero stays zero."""
    largest = jnp.max(jnp.abs(matrix))
    return matrix * jnp.where(largest > 0, 1 / jnp.where(largest > 0, largest, 1), 0)


def _normalised(vector: Float[Array, " K"]) -> Float[Array, " K"]:
    """The vector at length 1; zero stays zero."""
    length = jnp.sqrt(total(vector * vector))
    return vector * jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
