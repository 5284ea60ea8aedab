"""Scales for vectors that neither overflow nor round."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def unit(x: Float[Array, " d"]) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """Divide by a power of two c, so that the largest |x / c| is in [1, 4) -> (x / c, c).

    Nothing is rounded, and zeros stay zeros. 1 / c is not denormal: XLA multiplies by it, and
    treats a denormal as 0.
    """
    _, exponent = jnp.frexp(jnp.max(jnp.abs(x), initial=0))
    least = int(jnp.finfo(x.dtype).minexp)
    scale = jnp.ldexp(jnp.ones((), x.dtype), jnp.clip(exponent - 1, least, -least))
    return x / scale, scale


def saturated(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Replace infinities by the largest number of the float type."""
    largest = jnp.finfo(x.dtype).max
    return jnp.clip(x, -largest, largest)


def safe(x: Float[Array, ""]) -> Float[Array, ""]:
    """The divisor x, or 1 where x is 0."""
    return jnp.where(x > 0, x, 1)
