"""Single-linkage clusters of the rows of a stack."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float


def single_linkage(
    distance: Float[Array, "K K"], present: Bool[Array, " K"]
) -> Float[Array, "K K"]:
    """Return the distance at which single linkage joins two rows in one cluster.

    It is the longest step of the path between them whose longest step is shortest; +∞ for pairs
    with an absent row.
    """
    pair = present[:, None] & present[None, :]
    direct = jnp.where(jnp.eye(len(present), dtype=bool), -jnp.inf, distance)
    direct = jnp.where(pair, direct, jnp.inf)

    def through(k, joined):
        """Paths over row k as well."""
        return jnp.minimum(joined, jnp.maximum(joined[:, k][:, None], joined[k][None, :]))

    return lax.fori_loop(0, len(present), through, direct)
