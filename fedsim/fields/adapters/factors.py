"""Adapted weights that are never made: `models.dense.Factored`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class LowRank(NamedTuple):
    """The weight W + scale · A B, in factors."""

    W: jax.Array  # [m, n], or a kernel [..., n] that is a matrix [m, n] of its other axes
    A: jax.Array  # [m, r]
    B: jax.Array  # [r, n]
    scale: jax.Array

    def times(self, x: jax.Array, product: Callable) -> jax.Array:
        """Return x W + scale · (x A) B; W + scale · A B is never made."""
        return product(x, self.W) + self.scale * product(product(x, self.A), self.B)

    def merged(self) -> jax.Array:
        """Return the weight as one array of W's shape."""
        return self.W + self.scale * (self.A @ self.B).reshape(self.W.shape)


class Scaled(NamedTuple):
    """The weight W · diag(scale), in factors."""

    W: Any  # [m, n], or `Factored`
    scale: jax.Array  # [n]

    def times(self, x: jax.Array, product: Callable) -> jax.Array:
        """Return (x W) · diag(scale)."""
        return product(x, self.W) * self.scale
