"""The direction in which a few rows spread most, the same bits however many slots are empty."""

import functools

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim.rules.present_rows import of_present_rows

# The 2³⁰-th power of a matrix: other directions vanish, unless their spread is within 1e-8 of it.
SQUARINGS = 30
SHARE = 1e-4  # of other directions in a power whose square has none
DEPTH = 256  # rows that one product adds


def dominant(matrix: Float[Array, "K K"]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """Return the largest eigenvalue and its unit eigenvector by repeated squaring.

    Rows of zeros change no bit: the number of the others decides the shape of all products.

    Args:
      matrix: symmetric and positive semi-definite; zero has the eigenvalue 0 and the vector 0.
    """
    K = len(matrix)
    present = jnp.any(matrix != 0, axis=1)
    order = jnp.argsort(~present, stable=True)

    def of_rows(rows: Float[Array, "size K"]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
        size = len(rows)
        square = jnp.pad(rows[:, :size], ((0, 0), (0, max(size - K, 0))))
        value, vector = _dominant(square)
        return value, jnp.pad(vector[:K], (0, max(K - size, 0)))

    value, vector = of_present_rows(of_rows, matrix[:, order], present)
    return value, vector[jnp.argsort(order)]


def _dominant(matrix: Float[Array, "K K"]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """`dominant` of a matrix whose number of rows is a power of two."""

    def has_others(state):
        """Whether a power P is not yet of rank one, where (trace P)² = Σ Pᵢⱼ²."""
        squarings, power = state
        trace = total(jnp.diagonal(power))
        others = trace * trace - total(total(power * power))
        return (squarings < SQUARINGS - 1) & (others > SHARE * trace * trace)

    def square(state):
        squarings, power = state
        return squarings + 1, _scaled(_squared(power))

    unit = _scaled(matrix)
    _, power = square(lax.while_loop(has_others, square, (0, unit)))
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


def _squared(matrix: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """The square of a symmetric matrix, as a sum of products of a few rows each."""
    rows = matrix.reshape(-1, min(DEPTH, len(matrix)), len(matrix))
    products = [jnp.matmul(part.T, part, precision=lax.Precision.HIGHEST) for part in rows]
    return functools.reduce(jnp.add, products)


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
