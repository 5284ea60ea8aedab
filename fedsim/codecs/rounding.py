"""Rounding that is right on average."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def rounded(t: Float[Array, " d"], u: Float[Array, " d"]) -> Int[Array, " d"]:
    """⌊t⌋ + 1 where the draw u of [0, 1) is below the fraction t − ⌊t⌋, else ⌊t⌋: its mean is t."""
    low = jnp.floor(t)
    return low.astype(jnp.int32) + (u < t - low)
