"""Scales of a vector that neither overflow nor round."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def unit(x: Float[Array, " d"]) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """x / c and the power of two c, such that the largest |x / c| is in [1, 2); nothing is rounded, and zeros stay zeros."""
    _, exponent = jnp.frexp(jnp.max(jnp.abs(x), initial=0))
    scale = jnp.ldexp(jnp.ones((), x.dtype), jnp.maximum(exponent - 1, jnp.finfo(x.dtype).minexp))
    return x / scale, scale


def saturated(x: Float[Array, ""]) -> Float[Array, ""]:
    """A scalar as it can be sent: of those beyond the float type its largest."""
    largest = jnp.finfo(x.dtype).max
    return jnp.clip(x, -largest, largest)


def safe(x: Float[Array, ""]) -> Float[Array, ""]:
    """A divisor: 1 where x is 0."""
    return jnp.where(x > 0, x, 1)
