"""Scales of a vector that neither overflow nor round."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def unit(x: Float[Array, " d"]) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """Divide by a power of two c, so that the largest |x / c| is in [1, 4) -> (x / c, c).

    Nothing is rounded.

    Zeros stay zeros. 1 / c is no denormal: XLA multiplies by it, and takes a denormal for 0.
    """
    _, exponent = jnp.frexp(jnp.max(jnp.abs(x), initial=0))
    least = int(jnp.finfo(x.dtype).minexp)
    scale = jnp.ldexp(jnp.ones((), x.dtype), jnp.clip(exponent - 1, least, -least))
    return x / scale, scale


def saturated(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Numbers beyond the float type as its largest."""
    largest = jnp.finfo(x.dtype).max
    return jnp.clip(x, -largest, largest)


def safe(x: Float[Array, ""]) -> Float[Array, ""]:
    """A divisor: 1 where x is 0."""
    return jnp.where(x > 0, x, 1)
