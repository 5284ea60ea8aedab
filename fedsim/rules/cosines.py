"""Angles between the rows of a stack, and single-linkage clusters."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.tree import Tree


def cosines(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Return the cosines of the angles between all pairs of present rows; 0 for a row of zeros.

    They are 1 − ‖u_i − u_j‖²/2 for rows u of length 1.
    """
    lengths = tree.norms(stacked, tree.zero_row(stacked))
    usable = present & (lengths > 0) & jnp.isfinite(lengths)
    inverse = 1 / jnp.where(usable, lengths, 1)

    def units(x: Array) -> Array:
        return jnp.where(tree.along(usable, x), x * tree.along(inverse, x).astype(x.dtype), 0)

    square = tree.squared_distances(jax.tree.map(units, stacked), usable)
    return jnp.where(usable[:, None] & usable[None, :], 1 - 0.5 * square, 0)


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
